import json

import pytest

from glassformer.data.tag_schemes import find_scheme
from glassformer.errors import GlassformerError
from glassformer.tasks.tag.scores import judge_tags


def judged(*pairs):
    gold, predicted = zip(*pairs, strict=True)
    scheme = find_scheme({tag for each in (*gold, *predicted) for tag in each.split()})
    gold, predicted = ([tags.split() for tags in part] for part in (gold, predicted))
    return judge_tags(gold, predicted, 0.5, scheme)


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
        "f1_interval": [1.0, 1.0],
        "loss": 0.5,
        "scheme": "IOB2",
        "expected_calibration_error": None,
        "num_words": 2,
        "num_sentences": 1,
        "types": {"PER": {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 1}},
        "confusion_matrix": {"B-PER": {"B-PER": 1}, "O": {"O": 1}},
        "unknown_tags": {},
    }
    totals, heading, row = found.text().splitlines()
    assert totals.startswith("precision 1.0000  recall 1.0000  F1 1.0000")
    assert totals.endswith("2 words in 1 sentence")
    assert heading.split()[0] == "type"
    assert row.split() == ["PER", "1.0000", "1.0000", "1.0000", "1"]


def test_a_table_of_tags_does_not_mention_entities():
    totals, heading, *_ = judged(("NOUN", "VERB")).text().splitlines()
    assert totals.startswith("accuracy 0.0000")
    assert heading.split()[0] == "tag"


def test_no_words_cannot_be_judged():
    with pytest.raises(GlassformerError, match="no words"):
        judge_tags([[]], [[]], 0.0, None)


def test_sentences_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        judge_tags([["O", "O"]], [["O"]], 0.0, None)
    with pytest.raises(ValueError, match="shorter"):
        judge_tags([["O"], ["O"]], [["O"]], 0.0, None)
