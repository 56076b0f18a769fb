"""Batches of examples of one size."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassformer.tasks.rows import example_batches
from glassformer.tasks.task import Batches


def batches(num_examples: int, batch_size: int, seed: int = 0) -> Batches:
    return example_batches(num_examples, batch_size, seed, take=lambda numbers: numbers.tolist())


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 5))
def test_every_epoch_reads_every_example_once(num_examples: int, size: int, seed: int) -> None:
    made = batches(num_examples, size, seed)
    epochs = 3 * num_examples
    read = [n for number in range(-(-epochs // size)) for n in made.batch(number)][:epochs]
    for first in range(0, epochs, num_examples):
        assert sorted(read[first : first + num_examples]) == list(range(num_examples))


def test_a_batch_is_a_function_of_its_number_alone() -> None:
    later = batches(10, 4).batch(7)
    made = batches(10, 4)
    assert [made.batch(number) for number in range(8)][7] == later
    assert made.batch(7, most=2) == later[:2]
    assert np.isclose(made.per_epoch, 2.5)


def test_epochs_differ_and_so_do_seeds() -> None:
    one = batches(50, 50)
    assert one.batch(0) != one.batch(1)
    assert one.batch(0) != batches(50, 50, seed=1).batch(0)
