"""A word that a translator does not know is copied from where it looked."""

import pytest
import torch
from translators import KINDS, translator, writes

from glassformer.errors import UsageError


@pytest.mark.parametrize("copies", [True, False])
def test_a_word_that_it_does_not_know_is_copied(
    monkeypatch: pytest.MonkeyPatch, copies: bool
) -> None:
    predictor = translator()
    writes(monkeypatch, predictor, "two Timbuktu one Zanzibar")
    looks = torch.eye(4)[[2, 3, 0, 1]]  # the last two places are the other's
    monkeypatch.setattr(
        "glassformer.predict.word_alignment.attention_of_heads",
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
