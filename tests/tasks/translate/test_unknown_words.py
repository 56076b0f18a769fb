"""A word that a translator does not know is copied from where it looked."""

import pytest
import torch
from translators import KINDS, random_model, translator, vocabulary, writes

from glassformer.errors import UsageError
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.tasks.translate.predictor import decode_with_unknown


@pytest.mark.parametrize("copies", [True, False])
def test_a_word_that_it_does_not_know_is_copied(
    monkeypatch: pytest.MonkeyPatch, copies: bool
) -> None:
    predictor = translator()
    writes(monkeypatch, predictor, "two Timbuktu one Zanzibar")
    looks = torch.eye(4)[[2, 3, 0, 1]]  # the last two places are the other's
    monkeypatch.setattr(
        "glassformer.tasks.translate.predictor.attention_of_heads",
        lambda *_: torch.cat((looks, torch.zeros(4, 1)), dim=1)[None, None],
    )
    found = predictor.translate("one Zanzibar two Kairo-Nord", copy_unknown=copies)
    unknown = ("Kairo-Nord", "Zanzibar") if copies else ("<|unk|>", "<|unk|>")
    assert found.text == "two {} one {}".format(*unknown)


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_source_of_one_word_that_word_is_copied(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    predictor = translator(kind)
    writes(monkeypatch, predictor, "one Unknown two")
    copied = "one Zanzibar two" if predictor.model.taps else "one <|unk|> two"
    assert predictor.translate("Zanzibar").text == copied


@pytest.mark.parametrize("copies", [True, False])
def test_a_beginning_stays_as_it_was_told(copies: bool) -> None:
    predictor = translator()
    found = predictor.translate("one two", prefix="eight Timbuktu", copy_unknown=copies)
    assert found.text.startswith("eight Timbuktu")


def test_there_is_nothing_to_copy_where_every_word_is_known() -> None:
    with pytest.raises(UsageError, match="copy_unknown has no effect"):
        translator(tokens="bpe").translate("one", copy_unknown=True)


def test_words_are_copied_from_a_source_of_subwords(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = vocabulary("bpe", "one two three"), vocabulary("word", "eight nine")
    both = PairPreprocessing(tokenizer=source, target_tokenizer=target)
    (row,) = both.encode_source(["qqq z"])
    looks = torch.zeros(1, 1, 2, len(row))
    looks[..., -2] = 1  # at the last letter, before the end
    monkeypatch.setattr(
        "glassformer.tasks.translate.predictor.attention_of_heads", lambda *each: looks
    )
    model = random_model("transformer", source)
    unknown = target.unknown
    assert unknown is not None
    found = decode_with_unknown(model, both, "qqq z", "", [unknown] * 2, copies=True)
    assert found == "z z"
