"""What is held out never leaks into training, and all of its labels can be learned."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.labelled_texts import Example
from glassformer.data.rows import DiskList
from glassformer.data.split import (
    SLACK,
    Groups,
    Items,
    bytes_key,
    hold_out,
    normalised,
    split_labelled,
)
from glassformer.errors import GlassformerError


@given(
    st.lists(st.tuples(st.integers(0, 12), st.sets(st.sampled_from("abc"))), max_size=60),
    st.integers(0, 5),
)
def test_whatever_is_held_out_can_be_learnt(items: list[tuple[int, set[str]]], seed: int) -> None:
    contents = [str(content).encode() for content, _ in items]
    kinds: dict[tuple[str, ...], int] = {}
    answers = [kinds.setdefault(tuple(sorted(each)), len(kinds)) for _, each in items]
    keys = np.array([bytes_key(each, seed) for each in contents], dtype=np.uint64)
    is_chosen = hold_out(Groups.of(keys), np.array(answers, np.int32), list(kinds), 0.1, SLACK)
    chosen = {*np.flatnonzero(is_chosen).tolist()}
    rest = set(range(len(items))) - chosen
    assert not {contents[i] for i in chosen} & {contents[i] for i in rest}
    assert {label for i in chosen for label in items[i][1]} <= {
        label for i in rest for label in items[i][1]
    }
    assert not items or rest


VARIANTS = [str, str.upper, str.title, "  {}\t".format, lambda text: text.replace(" ", " \n ")]
TEXTS = st.builds(
    lambda text, change: change(text),
    st.sampled_from(
        [f"text {n}" for n in range(12)] + ["ﬁne ﬁlm", "fine film", "Straße", "STRASSE"]
    ),
    st.sampled_from(VARIANTS),
)
ROWS = st.lists(st.tuples(TEXTS, st.sets(st.sampled_from("abc"), max_size=2)), max_size=60)


def items_of(rows: list[tuple[str, set[str]]], seed: int, folder: Path | None) -> Items[Example]:
    store = None if folder is None else DiskList(folder, Example)
    items = Items(["rows"], "example", seed, store, body="text")
    items.extend(
        Example(text, tuple(sorted(labels)), f"rows:{n}") for n, (text, labels) in enumerate(rows)
    )
    return items


@settings(deadline=None)
@given(ROWS, ROWS, st.integers(0, 3), st.sampled_from([0.05, 0.1, 0.5]))
def test_every_row_is_in_one_part_and_no_content_in_two(
    rows: list[tuple[str, set[str]]], other: list[tuple[str, set[str]]], seed: int, fraction: float
) -> None:
    nothing = items_of([], seed, None)
    with TemporaryDirectory() as folder:
        stores = [None, Path(folder)]
        try:
            splits = [
                split_labelled(items_of(rows, seed, store), nothing, nothing, fraction)
                for store in stores
            ]
            tested = split_labelled(
                items_of(rows, seed, None), nothing, items_of(other, seed, None), fraction
            )
        except GlassformerError:
            return
        found = splits[0]
        assert [list(each.training) for each in splits] == [found.training] * 2
        assert [list(each.validation) for each in splits] == [found.validation] * 2
    places = [each.source for part in (found.training, found.validation) for each in part]
    assert Counter(places) == Counter(f"rows:{n}" for n in range(len(rows)))
    trained, held_out = (
        {normalised(each.text) for each in part} for part in (found.training, found.validation)
    )
    assert held_out
    assert not trained & held_out
    leaks = sum(normalised(text) in trained | held_out for text, _ in other)
    assert len(tested.test) == len(other)
    said = [note for note in tested.notes if "in the test data also occur" in note]
    assert [note.split()[0] for note in said] == ([f"{leaks}"] if leaks else [])


@given(ROWS, ROWS)
def test_separate_validation_data_is_used_or_counted(
    rows: list[tuple[str, set[str]]], other: list[tuple[str, set[str]]]
) -> None:
    training, validation, test = (items_of(each, 0, None) for each in (rows, other, []))
    if not other:
        return
    try:
        found = split_labelled(training, validation, test, 0.1)
    except GlassformerError:
        return
    number = len(other) - len(found.validation)
    said = [note for note in found.notes if note.startswith("left out: ")]
    assert [note.split()[2] for note in said] == ([str(number)] if number else [])
    trained = {normalised(text) for text, _ in rows}
    leaks = sum(normalised(each.text) in trained for each in found.validation)
    said = [note for note in found.notes if "also occur" in note]
    assert [note.split()[0] for note in said] == ([str(leaks)] if leaks else [])


def test_what_repeats_is_counted_once() -> None:
    texts = ["A film", "a film", "a  FILM", "a film", "a film", "other", "More", "ﬁlm", "film"]
    rows = [(text, {"x"}) for text in texts] + [(f"text {n}", {"y"}) for n in range(5)]
    nothing = items_of([], 0, None)
    found = split_labelled(items_of(rows, 0, None), nothing, nothing, 0.1)
    assert found.notes == [
        "2 examples repeat another exactly; equal examples stay on the same side of the split",
        "3 examples differ from another only in case, whitespace or Unicode normalization; they "
        "stay on the same side of the split",
    ]


def test_the_arrays_of_items_are_as_long_as_the_items() -> None:
    items = items_of([("a", {"x"}), ("A", {"y", "x"}), ("b", set())], 0, None)
    assert items.kinds == [("x",), ("x", "y"), ()]
    assert items.answers.tolist() == [0, 1, 2]
    assert items.keys[0] == items.keys[1] != items.keys[2]
    assert len(np.unique(items.contents)) == 3
    assert items.count_labels() == {"x": 2, "y": 1}
