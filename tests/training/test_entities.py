import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import GlassformerError
from glassformer.training.entities import entities, f1_interval, has_entities, judge_tags
from glassformer.training.scores import wilson

SENTENCES = {
    "": [],
    "O O": [],
    "B-PER I-PER O B-LOC": [("PER", 0, 1), ("LOC", 3, 3)],
    # neighbours of one type: only a B- tells them apart
    "B-PER B-PER": [("PER", 0, 0), ("PER", 1, 1)],
    "B-PER I-PER B-PER I-PER": [("PER", 0, 1), ("PER", 2, 3)],
    "I-PER B-PER": [("PER", 0, 0), ("PER", 1, 1)],
    # I- begins an entity after O, at the start, and after another type
    "I-PER I-PER": [("PER", 0, 1)],
    "O I-PER I-PER O": [("PER", 1, 2)],
    "B-PER I-LOC I-LOC": [("PER", 0, 0), ("LOC", 1, 2)],
    "I-PER I-LOC I-PER": [("PER", 0, 0), ("LOC", 1, 1), ("PER", 2, 2)],
    "B-PER O I-PER": [("PER", 0, 0), ("PER", 2, 2)],
    # IOBES
    "S-PER B-LOC I-LOC E-LOC O": [("PER", 0, 0), ("LOC", 1, 3)],
    "S-PER S-PER": [("PER", 0, 0), ("PER", 1, 1)],
    "B-PER E-PER I-PER": [("PER", 0, 1), ("PER", 2, 2)],
    "B-PER E-PER E-PER": [("PER", 0, 1), ("PER", 2, 2)],
    "S-PER E-PER": [("PER", 0, 0), ("PER", 1, 1)],
    "B-PER S-PER": [("PER", 0, 0), ("PER", 1, 1)],
    "B-PER E-LOC": [("PER", 0, 0), ("LOC", 1, 1)],
    # a type may have a hyphen of its own; other tags are no entities
    "B-work-of-art I-work-of-art": [("work-of-art", 0, 1)],
    "NOUN -LRB- NN-TL B I": [],
    "B-PER NOUN I-PER": [("PER", 0, 0), ("PER", 2, 2)],
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_entities_counted_by_hand(sentence):
    assert entities(sentence.split()) == set(SENTENCES[sentence])


@given(st.lists(st.tuples(st.sampled_from(["", "PER", "LOC"]), st.integers(1, 4)), max_size=9))
def test_entities_that_are_written_as_tags_are_read_back(runs):
    iob2, iobes, expected = [], [], set()
    for kind, length in runs:
        if not kind:
            iob2 += ["O"] * length
            iobes += ["O"] * length
            continue
        expected.add((kind, len(iob2), len(iob2) + length - 1))
        prefixes = ["B", *"I" * (length - 2), "E"] if length > 1 else ["S"]
        iob2 += [f"{prefix}-{kind}" for prefix in ["B", *"I" * (length - 1)]]
        iobes += [f"{prefix}-{kind}" for prefix in prefixes]
    assert entities(iob2) == entities(iobes) == expected


def test_tags_with_prefixes_mark_entities_and_parts_of_speech_do_not():
    assert has_entities(["O", "B-PER"])
    assert has_entities(["I-PER"])
    assert not has_entities(["O", "NOUN", "VERB", "NN-TL", "-LRB-"])
    assert not has_entities([])


def judged(*pairs):
    gold, predicted = zip(*pairs, strict=True)
    return judge_tags([tags.split() for tags in gold], [tags.split() for tags in predicted], 0.5)


def test_a_wrong_boundary_is_a_false_entity_and_a_missed_one():
    found = judged(("B-PER I-PER O B-LOC", "B-PER O O B-LOC"))
    assert (found.precision, found.recall, found.f1) == (0.5, 0.5, 0.5)
    assert found.accuracy == 0.75
    location, person = found.types
    assert (location.label, location.f1, location.support) == ("LOC", 1.0, 1)
    assert (person.label, person.precision, person.recall, person.f1) == ("PER", 0.0, 0.0, 0.0)


def test_a_wrong_type_is_a_false_entity_of_one_type_and_a_missed_one_of_another():
    found = judged(("B-PER I-PER", "B-ORG I-ORG"))
    assert [(score.label, score.f1, score.support) for score in found.types] == [
        ("ORG", 0.0, 0),
        ("PER", 0.0, 1),
    ]


def test_entities_are_counted_over_all_sentences_together():
    found = judged(
        ("B-PER O", "B-PER O"),
        ("B-PER B-LOC O", "B-PER I-PER O"),  # a person too long, a location missed
        ("O O", "O B-LOC"),
    )
    # 1 right of 3 predicted and of 3 true
    assert (found.precision, found.recall) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert found.f1 == pytest.approx(1 / 3)
    assert (found.num_words, found.num_sentences) == (7, 3)
    assert found.accuracy == pytest.approx(5 / 7)
    location, person = found.types
    assert (location.precision, location.recall, location.support) == (0.0, 0.0, 1)
    assert (person.precision, person.recall, person.support) == (0.5, 0.5, 2)


def test_an_entity_does_not_reach_into_the_next_sentence():
    apart = judged(("B-PER", "B-PER"), ("I-PER", "B-PER"))
    assert (apart.f1, apart.types[0].support) == (1.0, 2)
    assert apart.accuracy == 0.5  # the same entity, tagged differently


def test_a_tagger_that_finds_nothing_scores_0():
    found = judged(("B-PER O", "O O"))
    assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)


def test_tags_without_entities_are_scored_by_accuracy_and_tag_by_tag():
    found = judged(("DET NOUN VERB", "DET NOUN NOUN"), ("NOUN", "NOUN"))
    assert (found.precision, found.recall, found.f1) == (None, None, None)
    assert found.accuracy == 0.75
    scores = {score.label: score for score in found.types}
    assert list(scores) == ["DET", "NOUN", "VERB"]
    assert (scores["NOUN"].precision, scores["NOUN"].recall) == (pytest.approx(2 / 3), 1.0)
    assert scores["VERB"].recall == 0.0


def test_scores_are_written_as_json_and_as_a_table():
    found = judged(("B-PER O", "B-PER O"))
    assert json.loads(json.dumps(found.as_json())) == {
        "accuracy": 1.0,
        "precision": 1.0,
        "recall": 1.0,
        "f1": 1.0,
        "f1_interval": None,
        "loss": 0.5,
        "expected_calibration_error": None,
        "num_words": 2,
        "num_sentences": 1,
        "types": {"PER": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1}},
    }
    totals, heading, row = found.text().splitlines()
    assert totals.startswith("precision 1.0000  recall 1.0000  F1 1.0000")
    assert totals.endswith("2 words in 1 sentence")
    assert heading.split()[0] == "type"
    assert row.split() == ["PER", "1.0000", "1.0000", "1.0000", "1"]


def test_a_table_of_tags_does_not_speak_of_entities():
    totals, heading, *_ = judged(("NOUN", "VERB")).text().splitlines()
    assert totals.startswith("accuracy 0.0000")
    assert heading.split()[0] == "tag"


def test_no_words_cannot_be_judged():
    with pytest.raises(GlassformerError, match="no words"):
        judge_tags([[]], [[]], 0.0)


def test_sentences_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        judge_tags([["O", "O"]], [["O"]], 0.0)
    with pytest.raises(ValueError, match="shorter"):
        judge_tags([["O"], ["O"]], [["O"]], 0.0)


# --- how sure one can be ---


def test_the_interval_holds_the_score_and_narrows_with_more_sentences():
    gold = [["B-PER", "O"], ["O", "B-LOC"], ["B-PER", "I-PER"], ["O", "O"]]
    found = [["B-PER", "O"], ["O", "O"], ["B-PER", "O"], ["O", "O"]]
    score = judge_tags(gold, found, 0.0).f1
    few, many = f1_interval(gold * 5, found * 5), f1_interval(gold * 50, found * 50)
    assert few == f1_interval(gold * 5, found * 5)
    assert few[0] < many[0] < score < many[1] < few[1]


def test_the_interval_is_as_wide_as_that_of_many_repetitions():
    """Of sentences with one entity each, found or not, F1 is 2p / (1 + p)."""
    gold = [["B-PER"]] * 400
    found = [["B-PER"] if number % 2 else ["O"] for number in range(400)]
    low, high = f1_interval(gold, found)
    share_low, share_high = wilson(200, 400)
    assert low == pytest.approx(2 * share_low / (1 + share_low), abs=0.01)
    assert high == pytest.approx(2 * share_high / (1 + share_high), abs=0.01)


def test_what_is_always_right_or_has_no_entities_has_no_width():
    assert f1_interval([["B-PER"]] * 3, [["B-PER"]] * 3) == (1, 1)
    assert f1_interval([["O"]], [["O"]]) == (0, 0)
