"""The scheme of a set of tags, and its entities against those of seqeval."""

import warnings
from typing import Any

import pytest
import seqeval.metrics
import seqeval.scheme
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.tag_schemes import find_scheme
from glassformer.errors import GlassformerError
from glassformer.tasks.tag.scores import Tagging, judge_tags

LETTERS = {"IOB1": "BI", "IOB2": "BI", "BIOES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
TO_BIOES = str.maketrans("LUM", "ESI")


def judged(gold: Any, predicted: Any, labels: Any = None) -> Tagging:
    tags = labels or {tag for part in (gold, predicted) for each in part for tag in each}
    return judge_tags(gold, predicted, 0.0, find_scheme(tags))


def found(tags: str, *sentences: str) -> tuple[str, bool] | None:
    scheme = find_scheme(tags.split(), [each.split() for each in sentences])
    return None if scheme is None else (scheme.name, scheme.is_typed)


# --- which scheme ---


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        ("O B-PER I-PER", "IOB2"),
        ("O B-PER B-LOC", "IOB2"),
        ("O I-PER I-LOC", "IOB1"),
        ("O B-PER I-PER E-PER S-PER", "BIOES"),
        ("O B-PER E-PER S-PER", "BIOES"),  # BMES has these, too: I- or M- would decide
        ("O S-PER", "BIOES"),
        ("O B-PER I-PER L-PER U-PER", "BILOU"),
        ("O U-PER", "BILOU"),
        ("O B-PER L-PER", "BILOU"),
        ("O B-PER M-PER E-PER S-PER", "BMES"),
        ("O B-PER M-PER E-PER", "BMES"),
        ("B-work-of-art I-work-of-art", "IOB2"),
        ("O B-PER NOUN", "IOB2"),
    ],
)
def test_prefixes_show_the_scheme(tags: str, name: str) -> None:
    assert found(tags) == (name, True)


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        ("O B I", "IOB2"),
        ("B O", "IOB2"),
        ("I O", "IOB1"),
        ("B I E S O", "BIOES"),
        ("B I L O U", "BILOU"),
        ("B M E S", "BMES"),  # words of Chinese: nothing is outside
    ],
)
def test_letters_alone_are_a_scheme_without_types(tags: str, name: str) -> None:
    assert found(tags) == (name, False)


@pytest.mark.parametrize(
    "tags",
    [
        "NOUN VERB ADJ X",
        "O NN-TL -LRB- NN",
        "A- C- I- S- V-",  # a hyphen without a type
        "S O V",  # subject, object, verb
        "S O",
        "B I X",
        "N-SG V-PST I-SG B-PL",  # morphology: many letters, no O
        "M-SG F-SG O",
        "",
    ],
)
def test_other_tags_mark_no_entities(tags: str) -> None:
    assert found(tags) is None


@pytest.mark.parametrize(
    ("tags", "shown"),
    [
        ("O B-PER L-PER E-PER", "B-, E-, L-"),
        ("O B-PER I-PER M-PER", "B-, I-, M-"),
        ("O S-PER U-PER", "S-, U-"),
        ("O B-PER X-PER", "B-, X-"),
        ("O B I L E", "B, E, I, L"),
    ],
)
def test_letters_of_several_schemes_are_refused(tags: str, shown: str) -> None:
    with pytest.raises(GlassformerError, match=f"the tags mix {shown}, .* Rewrite the tags"):
        found(tags)


def test_iob1_and_iob2_are_told_apart_by_how_entities_begin() -> None:
    tags = "O B-PER I-PER I-LOC"
    assert found(tags, "B-PER I-PER O", "B-PER B-PER") == ("IOB2", True)
    assert found(tags, "I-PER I-PER O", "I-PER B-PER") == ("IOB1", True)
    assert found(tags, "I-PER I-LOC B-LOC") == ("IOB1", True)
    # one mistake among many entities changes nothing
    assert found(tags, "O I-PER", "B-PER I-PER O", "O B-PER") == ("IOB2", True)
    assert found("O B I", "I I O I B") == ("IOB1", False)


# --- its entities, against seqeval ---


def sentences(letters: str, kinds: list[str]) -> Any:
    tags = ["O", *(f"{letter}{kind}" for letter in letters for kind in kinds)]
    sentence = st.lists(st.sampled_from(tags), min_size=1, max_size=9)
    pair = sentence.flatmap(
        lambda gold: st.tuples(
            st.just(gold),
            # mostly right, so that some entities are found
            st.tuples(*(st.sampled_from([tag, tag, *tags]) for tag in gold)).map(list),
        )
    )
    return st.lists(pair, min_size=1, max_size=5)


def seqeval_f1(gold: list[list[str]], predicted: list[list[str]], name: str) -> float:
    """In its default mode, that of conlleval; schemes that it lacks are strict."""
    strict: dict[str, Any] = {}
    if name == "BILOU":
        strict = {"mode": "strict", "scheme": seqeval.scheme.BILOU}
    elif name == "BMES":
        strict = {"mode": "strict", "scheme": seqeval.scheme.IOBES}
        gold, predicted = (
            [[tag[0].translate(TO_BIOES) + tag[1:] for tag in each] for each in part]
            for part in (gold, predicted)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(seqeval.metrics.f1_score(gold, predicted, zero_division=0, **strict))


@pytest.mark.parametrize("kinds", [["-PER", "-LOC"], [""]], ids=["typed", "untyped"])
@pytest.mark.parametrize("name", LETTERS)
def test_f1_is_that_of_seqeval_even_for_malformed_tags(name: str, kinds: list[str]) -> None:
    labels = ["O", *(f"{letter}{kind}" for letter in LETTERS[name] for kind in kinds)]

    @settings(deadline=None, max_examples=75)
    @given(sentences(LETTERS[name], kinds))
    def check(pairs: list[tuple[list[str], list[str]]]) -> None:
        gold, predicted = ([*part] for part in zip(*pairs, strict=True))
        # One whole entity: data with B alone would be of IOB2, whatever the scheme of the model.
        whole = [LETTERS[name][-1] + kinds[0]]
        gold, predicted = [*gold, whole], [*predicted, whole]
        ours = judged(gold, predicted, labels).f1
        assert ours == pytest.approx(seqeval_f1(gold, predicted, name))

    check()


@st.composite
def well_formed(draw: Any, name: str) -> list[str]:
    """A sentence in which every entity is written as its scheme demands."""
    tags: list[str] = []
    runs = draw(st.lists(st.tuples(st.sampled_from(["", "PER", "LOC"]), st.integers(1, 4))))
    before = ""
    for kind, length in runs:
        middle, last, single = {"BILOU": "ILU", "BMES": "MES"}.get(name, "IES")
        letters = ["B", *middle * (length - 2), last] if length > 1 else [single]
        if name in ("IOB1", "IOB2"):
            first = "B" if name == "IOB2" or kind == before else "I"
            letters = [first, *"I" * (length - 1)]
        tags += [f"{letter}-{kind}" if kind else "O" for letter in letters]
        before = kind
    return [*tags, "O"]


STRICT = {"IOB1": "IOB1", "IOB2": "IOB2", "BIOES": "IOBES", "BILOU": "BILOU"}


@pytest.mark.parametrize("name", STRICT)
def test_well_formed_tags_have_the_entities_of_seqevals_strict_mode(name: str) -> None:
    @settings(deadline=None)
    @given(well_formed(name))
    def check(tags: list[str]) -> None:
        scheme = find_scheme([f"{letter}-X" for letter in LETTERS[name]], [tags])
        assert scheme is not None
        theirs = seqeval.scheme.Tokens(tags, getattr(seqeval.scheme, STRICT[name])).entities
        assert scheme.entities(tags) == {(e.tag, e.start, e.end - 1) for e in theirs}

    check()


@given(st.lists(st.tuples(st.sampled_from(["", "PER", "LOC"]), st.integers(1, 4)), max_size=9))
def test_every_scheme_writes_the_same_entities(runs: list[tuple[str, int]]) -> None:
    expected, place = set(), 0
    for kind, length in runs:
        if kind:
            expected.add((kind, place, place + length - 1))
        place += length
    for name, letters in LETTERS.items():
        tags, before = [], ""
        for kind, length in runs:
            middle, last, single = {"BILOU": "ILU", "BMES": "MES"}.get(name, "IES")
            spelled = ["B", *middle * (length - 2), last] if length > 1 else [single]
            if name in ("IOB1", "IOB2"):
                spelled = ["B" if name == "IOB2" or kind == before else "I", *"I" * (length - 1)]
            tags += [f"{letter}-{kind}" for letter in spelled] if kind else ["O"] * length
            before = kind
        scheme = find_scheme([f"{letter}-X" for letter in letters])
        assert scheme is not None
        assert scheme.entities(tags) == expected


# --- in a result ---


def test_half_an_entity_of_bilou_is_not_found() -> None:
    found = judged([["B-PER", "L-PER", "U-LOC"]], [["B-PER", "O", "O"]])
    assert (found.f1, found.scheme) == (0.0, "BILOU")


def test_tags_without_types_have_an_entity_score() -> None:
    found = judged([["B", "I", "O", "B"]], [["B", "I", "O", "O"]])
    assert found.f1 == pytest.approx(2 / 3)
    assert [(each.label, each.support) for each in found.types] == [("_", 2)]


def test_the_scheme_is_reported_in_text_and_json() -> None:
    found = judged([["B-PER", "L-PER"]], [["B-PER", "L-PER"]])
    assert found.as_json()["scheme"] == "BILOU"
    assert "scheme BILOU" in found.text()
    plain = judged([["NOUN"]], [["NOUN"]])
    assert plain.as_json()["scheme"] is None
    assert "scheme" not in plain.text()


def test_a_part_of_the_data_does_not_change_the_scheme_of_a_model() -> None:
    labels = ["O", "B-PER", "M-PER", "E-PER", "S-PER"]
    found = judged([["B-PER", "E-PER", "S-PER"]], [["B-PER", "E-PER", "O"]], labels)
    assert found.scheme == "BMES"
    half = judged([["O"]], [["B-PER"]], labels)
    assert (half.scheme, half.f1) == ("BMES", 0.0)


def test_data_in_another_scheme_is_read_in_its_own() -> None:
    gold = [["B-PER", "L-PER", "O", "U-PER"]]
    found = judged(gold, [["B-PER", "I-PER", "O", "B-PER"]], ["O", "B-PER", "I-PER"])
    assert (found.f1, found.scheme) == (1.0, "IOB2")
    assert found.notes == (
        "the data is tagged in BILOU, but the model in IOB2: entities are compared by their words, "
        "but accuracy compares the tags as they are",
    )


@pytest.mark.parametrize(
    ("labels", "predicted"),
    [
        ("O B-PER I-PER L-PER U-PER", "B-PER L-PER O"),
        ("O B-PER M-PER E-PER S-PER", "B-PER E-PER O"),
    ],
)
def test_iob2_is_not_taken_for_a_scheme_with_more_letters(labels: str, predicted: str) -> None:
    scores = judged([["B-PER", "I-PER", "O"]], [predicted.split()], labels.split())
    assert (scores.f1, scores.types[0].support) == (1.0, 1)
    assert "tagged in IOB2" in scores.notes[0]


def test_entities_with_types_are_not_lost_on_a_model_without() -> None:
    scores = judged([["B-PER", "I-PER", "O"]], [["B", "I", "O"]], ["B", "I", "O"])
    assert scores.f1 == 0
    assert {each.label: each.support for each in scores.types}["PER"] == 1
    assert scores.notes


def test_entities_with_and_without_types_are_not_mixed() -> None:
    with pytest.raises(GlassformerError, match=r"with a type \(B-PER\) and without \(B\)"):
        find_scheme(["O", "B-PER", "I-PER", "B", "I"])
