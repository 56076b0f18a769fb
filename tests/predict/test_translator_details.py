"""Translators: how a translation begins, what the search looked at, scripts without blanks."""

import csv
from pathlib import Path

import pytest
import torch
from translators import pupil, translator

from glassformer.errors import UsageError
from glassformer.models.rnn_seq2seq import RNNTranslator, RNNTranslatorConfig
from glassformer.models.transformer import Transformer, TransformerConfig


def test_a_translation_begins_as_it_is_told_to() -> None:
    predictor = pupil()
    found = predictor.translate("one two three", prefix="eight seven", num_return_sequences=2)
    assert all(each.text.startswith("eight seven") for each in found.translations)
    text, whole = found.text, predictor.score("one two three", found.text)
    rest = sum(whole.logprobs[2:])  # what follows the two words that were given
    assert text
    assert found.translations[0].score == pytest.approx(rest / (len(whole.logprobs) - 2), abs=1e-4)


@pytest.mark.parametrize("copies", [True, False])
def test_a_beginning_stays_as_it_was_told(copies: bool) -> None:
    predictor = translator()
    found = predictor.translate("one two", prefix="eight Timbuktu", copy_unknown=copies)
    assert found.text.startswith("eight Timbuktu")


def test_a_beginning_that_cannot_be_spelled_is_refused() -> None:
    with pytest.raises(UsageError, match="characters that the model does not know: Z ë"):
        translator(tokens="char").translate("one", prefix="Zoë")


def test_an_empty_text_hides_no_text_in_pieces() -> None:
    long = "one two three four five six. " * 5
    with pytest.raises(UsageError, match="prefix"):
        translator(text=long).translate_batch(["", "", "", "", "", long], prefix="one")


def test_there_is_nothing_to_copy_where_every_word_is_known() -> None:
    with pytest.raises(UsageError, match="copy_unknown changes nothing"):
        translator(tokens="bpe").translate("one", copy_unknown=True)


def test_groups_of_beams_differ_if_nothing_else_is_said() -> None:
    predictor = pupil()
    more = {"num_beams": 4, "num_return_sequences": 4, "num_beam_groups": 4}
    same = predictor.translate("one two three", **more, diversity_penalty=0.0)
    assert len({each.text for each in same.translations}) == 1
    found = predictor.translate("one two three", **more)
    assert found == predictor.translate("one two three", **more, diversity_penalty=0.5)
    assert len({each.text for each in found.translations}) > 1


def test_a_text_in_pieces_has_no_prefix() -> None:
    with pytest.raises(UsageError, match="prefix"):
        translator().translate("one two. " * 20, prefix="one")


def test_the_tree_of_a_search_holds_the_translation() -> None:
    predictor = pupil()
    nodes = {each["node"]: each for each in predictor.tree("one two", num_beams=3)}
    ends = [each for each in nodes.values() if each["fate"] == "complete"]
    best = max(ends, key=lambda each: each["score"])
    words = []
    while best["parent"] is not None:
        best = nodes[best["parent"]]
        words.insert(0, best["token"])
    assert " ".join(words) == predictor.translate("one two", num_beams=3).text


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_sentences_without_blanks_between_them_are_cut_at_their_ends(kind: str) -> None:
    sentence = "我喜欢你。"
    predictor = translator(tokens=kind, text=sentence * 3, context_length=18)
    pieces = predictor.cut(sentence * 9)
    assert "".join(pieces) == sentence * 9
    assert pieces == [sentence] * 9


def test_scores_are_computed_where_the_model_is() -> None:
    predictor = translator()
    predictor.model.to("meta")
    with pytest.raises((NotImplementedError, RuntimeError), match="meta") as refused:
        predictor.score("one", "two")  # no number can come from there, but no device is mixed up
    assert " device" not in str(refused.value)


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


def test_equal_seeds_give_equal_weights_however_memory_lies() -> None:
    shape = {"vocab_size": 7, "target_vocab_size": 9, "d_model": 8}
    found, kept = set(), []
    for number in range(20):
        kept.append([bytearray(97 * number) for _ in range(50)])  # memory is laid out anew
        torch.manual_seed(0)
        one = Transformer(TransformerConfig(**shape, num_heads=2, num_layers=1))
        two = RNNTranslator(RNNTranslatorConfig(**shape, d_embedding=8))
        sums = (each.embedding.weight.double().sum().item() for each in (one, two))
        found.add(tuple(sums))
        kept.append([one, two])
    assert len(found) == 1


def test_many_sentences_are_searched_side_by_side_to_the_same_end() -> None:
    predictor = pupil()
    texts = [" ".join(["one", "two", "three"] * (1 + number % 3)) for number in range(500)]
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        found.append(predictor.translate_batch(texts, num_return_sequences=2))
    assert [each.text for each in found[0]] == [each.text for each in found[1]]
    scores = [[each.translations[1].score for each in part] for part in found]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
