"""A translator is scored by sacreBLEU and by its own loss, on data read as in training."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from translators import pupil, sentences, translator

from glassformer.errors import GlassformerError


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_an_evaluation_is_sacrebleus_and_the_models_own_score(kind: str, tmp_path: Path) -> None:
    predictor, sources = pupil(kind), sentences(40, seed=99)
    right = [f"{text} two" for text in sources]
    pairs = list(zip(sources, right, strict=True))
    (tmp_path / "test.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    found = predictor.evaluate(str(tmp_path / "test.tsv"), num_beams=2)
    texts = [each.text for each in predictor.translate_batch(sources, num_beams=2)]
    bleu = sacrebleu.metrics.BLEU()
    assert found.bleu == bleu.corpus_score(texts, [right]).score
    assert 0 < found.bleu < 100
    assert found.chrf == sacrebleu.metrics.CHRF().corpus_score(texts, [right]).score
    assert found.signature == str(bleu.get_signature())
    scores = [predictor.score(*pair) for pair in pairs]
    count = sum(len(score.tokens) for score in scores)
    assert found.loss == pytest.approx(-sum(score.total for score in scores) / count, rel=1e-5)
    assert found.perplexity == pytest.approx(np.exp(found.loss))
    assert (found.num_sentences, found.num_too_long) == (40, 0)
    assert found.sentences_per_second > 0


def test_the_direction_is_remembered_for_tables_but_not_for_two_files(tmp_path: Path) -> None:
    predictor = translator(reverse=True)
    for name, lines in {"a": ["one two"], "b": ["three"], "ab": ["one two\tthree"]}.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    a, b, both = (str(tmp_path / name) for name in ("a", "b", "ab"))

    def expected(source: str, target: str) -> Any:
        logprobs = predictor.score(source, target).logprobs
        return pytest.approx(-np.mean(logprobs), rel=1e-5)

    assert predictor.evaluate(both).loss == expected("three", "one two")
    found = predictor.evaluate(source_paths=[a], target_paths=[b])
    assert found.loss == expected("one two", "three")


def test_what_is_too_long_is_translated_in_pieces_and_counted(tmp_path: Path) -> None:
    predictor = translator()
    path = tmp_path / "test.tsv"
    path.write_text("one\ttwo\n" + "one " * 60 + "\tthree\nfour\t" + "five " * 60 + "\n")
    found = predictor.evaluate(str(path))
    assert (found.num_sentences, found.num_too_long) == (3, 2)
    assert found.loss == pytest.approx(-np.mean(predictor.score("one", "two").logprobs), rel=1e-5)
    path.write_text("one " * 60 + "\tthree\n")
    with pytest.raises(GlassformerError, match="every sentence is longer than the model's context"):
        predictor.evaluate(str(path))


def table(path: Path, columns: tuple[str, str]) -> str:
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(columns)
        for word in ("one", "two", "three"):
            pair = {"en": word, "de": word.upper()}
            rows.writerow([pair[column] for column in columns])
    return str(path)


def test_the_columns_of_training_are_found_again_in_any_order(tmp_path: Path) -> None:
    predictor = translator(source_column="en", target_column="de")
    straight = predictor.evaluate(table(tmp_path / "a.csv", ("en", "de")))
    turned = predictor.evaluate(table(tmp_path / "b.csv", ("de", "en")))
    assert turned.loss == straight.loss
    (tmp_path / "c.tsv").write_text("one\tONE\ntwo\tTWO\nthree\tTHREE\n")
    assert predictor.evaluate(str(tmp_path / "c.tsv")).loss == straight.loss
