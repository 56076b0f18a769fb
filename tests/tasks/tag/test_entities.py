import pytest

from glassformer.data.tag_schemes import Scheme
from glassformer.inspect.chapters import f1_interval, wilson
from glassformer.tasks.tag.scores import judge_tags

BIOES = Scheme("BIOES", is_typed=True)
SENTENCES = {
    "": [],
    "O O": [],
    "B-PER I-PER O B-LOC": [("PER", 0, 1), ("LOC", 3, 3)],
    # adjacent entities of one type: only a B- separates them
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
    assert BIOES.entities(sentence.split()) == set(SENTENCES[sentence])


def interval(gold, predicted):
    pairs = [(BIOES.entities(a), BIOES.entities(b)) for a, b in zip(gold, predicted, strict=True)]
    return f1_interval([(len(a & b), len(a) + len(b)) for a, b in pairs])


def test_the_interval_holds_the_score_and_narrows_with_more_sentences():
    gold = [["B-PER", "O"], ["O", "B-LOC"], ["B-PER", "I-PER"], ["O", "O"]]
    found = [["B-PER", "O"], ["O", "O"], ["B-PER", "O"], ["O", "O"]]
    score = judge_tags(gold, found, 0.0, BIOES).f1
    few, many = interval(gold * 5, found * 5), interval(gold * 50, found * 50)
    assert few == interval(gold * 5, found * 5)
    assert few[0] < many[0] < score < many[1] < few[1]


def test_the_interval_is_as_wide_as_that_of_many_repetitions():
    """Of sentences with one entity each, found or not, F1 is 2p / (1 + p)."""
    gold = [["B-PER"]] * 400
    found = [["B-PER"] if number % 2 else ["O"] for number in range(400)]
    low, high = interval(gold, found)
    share_low, share_high = wilson(200, 400)
    assert low == pytest.approx(2 * share_low / (1 + share_low), abs=0.01)
    assert high == pytest.approx(2 * share_high / (1 + share_high), abs=0.01)


def test_the_interval_has_no_width_if_all_is_right_or_there_are_no_entities():
    assert interval([["B-PER"]] * 3, [["B-PER"]] * 3) == (1, 1)
    assert interval([["O"]], [["O"]]) == (0, 0)
