"""Work side by side: in order, one thread each, and everything as it was afterwards."""

import threading
from collections.abc import Iterator

import pytest
import torch

from glassformer.runtime.threads import side_by_side


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_what_is_found_comes_in_order(threads: int) -> None:
    assert list(side_by_side(lambda number: number * number, range(20))) == [
        number * number for number in range(20)
    ]
    assert list(side_by_side(str, [])) == []
    assert torch.get_num_threads() == threads


def test_each_has_a_thread_of_its_own(threads: int) -> None:
    meeting = threading.Barrier(threads)

    def work(_: int) -> tuple[int, int]:
        meeting.wait(timeout=30)  # all of them are here at the same time
        return threading.get_ident(), torch.get_num_threads()

    found = list(side_by_side(work, range(threads)))
    assert len({each for each, _ in found}) == threads
    assert {count for _, count in found} == {1}


def test_a_fault_ends_the_work_and_is_told(threads: int) -> None:
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        if number == 2:
            raise ValueError("two")
        return number

    with pytest.raises(ValueError, match="two"):
        list(side_by_side(work, range(10_000)))
    assert len(begun) < 10_000
    assert torch.get_num_threads() == threads
