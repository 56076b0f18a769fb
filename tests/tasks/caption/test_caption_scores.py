"""Scores of captions: against all references of an image, whatever their number."""

from typing import Any

import pytest
import sacrebleu

from glassformer.tasks.caption.scores import CaptionScorer, evaluate_captions

REFERENCES = [
    ["A brown dog runs on the grass.", "A dog is running across a field."],
    ["A cat sleeps on a red sofa."],
    ["A man rides his bike down the street.", "A man on a bicycle.", "Someone is cycling."],
]
TEXTS = ["a dog is running across a field", "a cat sleeps on the sofa", "a man rides a bike"]


class Model:
    context_length = 16


def scored(texts: list[str], cut_off: int = 0, **more: Any) -> Any:
    model: Any = Model()
    return evaluate_captions(model, 1.5, REFERENCES, lambda: (texts, cut_off), **more)


def test_bleu_is_sacrebleus_with_all_references_and_without_case() -> None:
    streams = [[each[n] if n < len(each) else "" for each in REFERENCES] for n in range(3)]
    expected = sacrebleu.corpus_bleu(TEXTS, streams, lowercase=True, force=True).score
    found = scored(TEXTS)
    assert found.bleu == pytest.approx(expected)
    assert found.bleu > scored([TEXTS[0], TEXTS[1], "a bird"]).bleu
    assert (found.num_images, found.num_references) == (3, 6)


def test_any_reference_is_an_exact_match() -> None:
    assert scored(TEXTS).exact_match == pytest.approx(1 / 3)
    last = [each[-1] for each in REFERENCES]
    assert scored(last).exact_match == 1
    assert scored([text.lower().rstrip(".") for text in last]).exact_match == 1


def test_captions_that_were_cut_off_are_reported() -> None:
    assert any("2 of 3 captions reached the maximum length" in n for n in scored(TEXTS, 2).notes)
    assert not any("maximum length" in note for note in scored(TEXTS).notes)


def test_a_few_images_are_too_few_for_cider() -> None:
    assert any("CIDEr-D of 3 images says little" in note for note in scored(TEXTS).notes)
    assert CaptionScorer(REFERENCES * 4).notes == []


def test_the_result_for_people_and_for_programs() -> None:
    found = scored(TEXTS)
    assert f"BLEU {found.bleu:.2f}" in found.text()
    assert "CIDEr-D" in found.headline()
    assert found.as_json().keys() >= {"bleu", "cider_d", "chrf", "exact_match", "loss", "signature"}


def test_a_script_without_blanks_is_compared_by_characters() -> None:
    chinese = [["一只棕色的狗在草地上跑"], ["一只猫睡在沙发上"]]
    scorer = CaptionScorer(chinese)
    assert scorer.matches(["一只棕色的狗在草地上跑。", "一只狗"]) == [True, False]
    assert scorer.cider_d(["一只棕色的狗", "沙发"])[0] > 0
