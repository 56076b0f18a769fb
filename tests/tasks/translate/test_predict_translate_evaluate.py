"""A translator is scored by sacreBLEU and by its own loss, on data read as in training."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from translators import pupil, sentences, translator, writes

from glassformer.errors import GlassformerError, UsageError
from glassformer.tasks.bleu import choose_bleu_tokenizer
from glassformer.tasks.translate.predictor import TranslatePredictor


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


def test_translations_that_are_cut_off_are_counted_and_noted(tmp_path: Path) -> None:
    predictor, path = pupil(), tmp_path / "test.tsv"
    path.write_text("one two three six\tone two three six\nfour five\tfour five\n")
    whole = predictor.evaluate(str(path))
    assert (whole.num_cut_off, whole.notes) == (0, ())
    found = predictor.evaluate(str(path), max_new_tokens=1)
    assert found.num_cut_off == found.as_json()["num_cut_off"] == 2
    assert found.notes == (
        "2 of 2 translations reached the maximum length and were cut off. Pass a larger "
        "--max-new-tokens, up to the model's context of 64 tokens. Or train longer: a model that "
        "has learned little does not know where to end.",
    )


def test_what_is_left_out_of_a_file_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "test.po"
    path.write_text('msgid "one"\nmsgstr "one"\n\n#, fuzzy\nmsgid "two"\nmsgstr "three"\n')
    found = pupil().evaluate(str(path))
    assert f"left out: 1 fuzzy message (first: {path}:4)" in found.notes
    lines = tmp_path / "test.tsv"
    lines.write_text("one\tone\n\ttwo\n")
    assert (
        f"scored as is: 1 pair with an empty side (first: {lines}:2)"
        in pupil().evaluate(str(lines)).notes
    )


def test_characters_that_the_model_does_not_know_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text("one\ttwo\none ñ\ttwo\ntwo\tone é\n")
    found = translator(tokens="char", context_length=64).evaluate(str(path), max_new_tokens=5)
    assert [note for note in found.notes if "model does not know" in note] == [
        "1 source has characters that the model does not know and cannot read; the loss excludes "
        "them: ñ",
        "1 reference has characters that the model does not know and cannot write; the loss "
        "excludes them: é",
    ]


@pytest.mark.parametrize(
    ("references", "words"),
    [
        (["A man sleeps on the sofa.", "Go."], "13a"),
        (["الرجل ينام على الأريكة الآن"], "13a"),
        (["그 남자는 소파에서 지금 잔다"], "13a"),
        (["我们中午在大树下再见面。", "我喜欢你。"], "zh"),
        (["私はあなたが好きです。"], "char"),
        (["เราจะพบกันอีกครั้งตอนเที่ยง"], "char"),
        (["four", "twenty seven", "hundred"], "char"),
        (["I saw 大树 in the garden"], "13a"),
    ],
)
def test_bleu_counts_what_the_language_has_for_words(references: list[str], words: str) -> None:
    assert choose_bleu_tokenizer(references)[0] == words
    perfect = sacrebleu.metrics.BLEU(tokenize=words).corpus_score(references, [references])
    assert perfect.score == pytest.approx(100)


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


CHINESE = "今天天气很好我们去公园散步吧"


def chinese(monkeypatch: pytest.MonkeyPatch, path: Path) -> TranslatePredictor:
    """One that gets one character of fifteen wrong."""
    predictor = translator(tokens="char", text=f"a {CHINESE}坏好")
    writes(monkeypatch, predictor, f"{CHINESE}坏")
    path.write_text(f"a\t{CHINESE}好\n")
    return predictor


def test_chinese_is_scored_by_its_characters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    predictor = chinese(monkeypatch, tmp_path / "test.tsv")
    found = predictor.evaluate(str(tmp_path / "test.tsv"))
    assert found.bleu == pytest.approx(92.539, abs=0.001)
    assert "|tok:zh|" in found.as_json()["signature"]
    assert "|tok:zh|" in found.text()
    assert found.chrf > 80


def test_a_tokenizer_of_bleu_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    predictor = chinese(monkeypatch, tmp_path / "test.tsv")
    found = predictor.evaluate(str(tmp_path / "test.tsv"), bleu_tokenizer="13a")
    assert found.bleu == 0
    assert "|tok:13a|" in found.signature
    assert found.notes == ()
    with pytest.raises(UsageError, match="bleu_tokenizer is moses; choose from 13a, intl, zh"):
        predictor.evaluate(str(tmp_path / "test.tsv"), bleu_tokenizer="moses")
