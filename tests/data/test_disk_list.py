"""A list on disk is a list: the same items in the same order, by number, by slice, and again."""

import random
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.labelled_texts import Example
from glassformer.data.rows import DiskList

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=20)
EXAMPLES = st.lists(
    st.builds(Example, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), TEXTS), max_size=20
)


@given(EXAMPLES)
def test_all_items_come_back(examples: list[Example]) -> None:
    stored = DiskList(Path(gettempdir()), Example, examples)
    assert list(stored) == examples
    assert [stored[number] for number in range(len(stored))] == examples
    assert list(stored[1:-1:2]) == examples[1:-1:2]


def test_reading_and_writing_may_take_turns(tmp_path: Path) -> None:
    examples = [Example(f"text {n} " * n, ("a", "b"), f"x:{n}") for n in range(300)]
    stored = DiskList(tmp_path, Example)
    for number, example in enumerate(examples):
        stored.append(example)
        assert stored[number // 2] == examples[number // 2]
    assert list(stored) == examples


def test_some_items_are_a_list_again(tmp_path: Path) -> None:
    examples = [Example("word " * (n % 7), (), str(n)) for n in range(100)]
    numbers = random.Random(0).sample(range(100), 40)
    some = DiskList(tmp_path, Example, examples).take(np.array(numbers))
    assert list(some) == [examples[number] for number in numbers]
    assert (len(some), some[-1]) == (40, examples[numbers[-1]])
    assert list(some[5:7]) == [examples[number] for number in numbers[5:7]]


def test_the_file_has_no_name_and_a_wrong_number_is_an_error(tmp_path: Path) -> None:
    stored = DiskList(tmp_path, Example, [Example("a", (), "b")])
    assert not list(tmp_path.iterdir())
    with pytest.raises(IndexError):
        stored[1]
