"""Tokens on disk, and the windows that training and validation read from them."""

from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.batches import ValidationWindows, Windows, open_tokens, write_tokens
from glassformer.errors import GlassformerError
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import LongText
from glassformer.text.word_cache import id_type, ids_of
from glassformer.training.learner import update_batches

# More than one window of ids, as a training has: (number of ids, context length)
SIZES = st.integers(1, 12).flatmap(
    lambda context: st.tuples(st.integers(context + 1, 8 * context + 1), st.just(context))
)


def windows(length: int, context: int, seed: int = 0) -> Windows:
    return Windows(np.arange(length, dtype=np.uint16), context, seed)


def epoch_of(found: Windows, epoch: int) -> np.ndarray:
    begin = epoch * found.per_epoch
    return found.__getitems__(list(range(begin, begin + found.per_epoch)))


# --- on disk ---


def test_every_document_stands_between_two_ends_of_text() -> None:
    tokenizer = train_tokenizer("char", ["ab"])
    a, b = tokenizer.encode("ab")
    end = tokenizer.end_of_text
    pieces = ids_of([LongText(["a", "b"], "1"), LongText(["b"], "2")], tokenizer)
    assert list(chain(*pieces)) == [end, a, b, end, b, end]


@pytest.mark.parametrize(("vocab_size", "num_bytes"), [(2**16, 2), (2**16 + 1, 4)])
def test_ids_take_two_bytes_while_they_fit(tmp_path: Path, vocab_size: int, num_bytes: int) -> None:
    ids = np.array([0, 1, vocab_size - 1], id_type(vocab_size))
    with (tmp_path / "ids.bin").open("wb") as file:
        assert write_tokens(file, [ids[:1], ids[:0], ids[1:]]) == 3
    assert (tmp_path / "ids.bin").stat().st_size == 3 * num_bytes
    assert open_tokens(tmp_path / "ids.bin", vocab_size).tolist() == ids.tolist()


def test_tokens_on_disk_are_mapped_and_cannot_be_changed(tmp_path: Path) -> None:
    with (tmp_path / "ids.bin").open("wb") as file:
        write_tokens(file, [np.array([1, 2, 3], id_type(10))])
    ids = open_tokens(tmp_path / "ids.bin", 10)
    assert isinstance(ids, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        ids[0] = 5


@pytest.mark.parametrize("content", [None, b"", b"odd"])
def test_a_file_that_holds_no_tokens_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ids.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GlassformerError, match=r"ids\.bin cannot be read as tokens"):
        open_tokens(path, 10)


# --- training ---


@settings(deadline=None)
@given(SIZES, st.integers(0, 3), st.integers(0, 5))
def test_an_epoch_predicts_no_token_twice_and_leaves_less_than_two_windows(
    size: tuple[int, int], seed: int, epoch: int
) -> None:
    length, context = size
    batch = epoch_of(windows(length, context, seed), epoch)
    targets = batch[:, 1:].flatten().tolist()
    assert (np.diff(batch) == 1).all()  # each window is a piece of the text, uncut
    assert batch.min() >= 0
    assert batch.max() < length
    assert len(set(targets)) == len(targets)
    assert length - len(targets) < 2 * context + 1
    assert max(targets) - min(targets) == len(targets) - 1  # what is left over is at the ends


@settings(deadline=None, max_examples=30)
@given(SIZES)
def test_over_many_epochs_every_token_is_read(size: tuple[int, int]) -> None:
    length, context = size
    found = windows(length, context)
    read = {int(id) for epoch in range(400) for id in epoch_of(found, epoch).flat}
    assert read == set(range(length))


def test_each_epoch_cuts_and_shuffles_anew() -> None:
    found = windows(1000, 10)
    first, second = epoch_of(found, 0)[:, 0], epoch_of(found, 1)[:, 0]
    assert first[0] % 10 != second[0] % 10
    assert sorted(first) != first.tolist()
    assert np.argsort(first).tolist() != np.argsort(second).tolist()


@settings(deadline=None)
@given(SIZES, st.lists(st.integers(0, 200), min_size=1, max_size=8))
def test_a_window_is_a_function_of_its_number_whatever_was_read_before(
    size: tuple[int, int], numbers: list[int]
) -> None:
    used, fresh = windows(*size), [windows(*size) for _ in numbers]
    together = used.__getitems__(numbers)
    alone = [each.__getitems__([number])[0] for each, number in zip(fresh, numbers, strict=True)]
    assert together.tolist() == [window.tolist() for window in alone]


def test_another_seed_is_another_order() -> None:
    assert not np.array_equal(epoch_of(windows(1000, 10, 1), 0), epoch_of(windows(1000, 10, 2), 0))


# --- steps ---


@settings(deadline=None)
@given(st.integers(0, 20), st.integers(1, 3))
def test_the_batches_of_updates_are_all_batches_in_order(steps: int, accumulation: int) -> None:
    config = SimpleNamespace(
        gradient_accumulation_steps=accumulation, batches_per_update=accumulation
    )
    objective: Any = SimpleNamespace(config=config, batch=lambda number, most: number)
    objective.num_targets = lambda batch: 1
    batches = [each for step in range(steps) for each in update_batches(objective, step)]
    assert [each.number for each in batches] == list(range(steps * accumulation))
    assert [each.content for each in batches] == [each.number for each in batches]


# --- validation ---


@settings(deadline=None)
@given(st.integers(2, 60), st.integers(1, 12), st.integers(1, 4))
def test_validation_predicts_every_token_but_the_first_exactly_once(
    length: int, context: int, batch_size: int
) -> None:
    found = ValidationWindows(np.arange(length, dtype=np.uint16), context, batch_size)
    batches = [found[number] for number in range(len(found))]
    targets = [int(id) for batch in batches for id in batch[:, 1:].flat]
    assert targets == list(range(1, length))
    assert all((np.diff(batch) == 1).all() for batch in batches)
    assert max(len(batch) for batch in batches) <= batch_size
    assert max(batch.shape[1] for batch in batches) <= context + 1
