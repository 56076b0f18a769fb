"""Work side by side: in order, one thread each, and everything as it was afterwards."""

import threading
from collections.abc import Iterator

import pytest
import torch

from glassformer.runtime.threads import check_wanted, side_by_side


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
        if number == 0:
            raise ValueError("nought")
        while True:  # work without an end, that asks now and then
            check_wanted()

    with pytest.raises(ValueError, match="nought"):
        list(side_by_side(work, range(50)))
    assert len(begun) <= 2 * threads
    assert torch.get_num_threads() == threads


def test_work_that_nobody_waits_for_ends(threads: int) -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number == 0:
            assert threads == 1 or begun.wait(timeout=30)
            return number
        begun.set()
        try:
            while True:
                check_wanted()
        finally:
            ended.set()

    results = side_by_side(work, range(threads))
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert ended.is_set() == (threads > 1)
    assert torch.get_num_threads() == threads


def test_few_pieces_of_work_share_the_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(6)
    try:
        assert list(side_by_side(lambda _: torch.get_num_threads(), range(2))) == [3, 3]
    finally:
        torch.set_num_threads(before)
