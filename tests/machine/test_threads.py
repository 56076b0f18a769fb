"""Work side by side: in order, one thread each, and everything as it was afterwards."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from glassformer.machine.threads import BRIEFLY, WAITING, check_wanted, side_by_side, spin_briefly


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


# --- how long threads spin ---


def in_a_process(program: str, **environment: str) -> str:
    kept = {key: value for key, value in os.environ.items() if key not in WAITING}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


ASK = "import os; print(*(os.environ.get(key) for key in ('GOMP_SPINCOUNT', 'KMP_BLOCKTIME')))"


def test_threads_sleep_soon_if_glassformer_is_imported_before_torch() -> None:
    expected = f"{BRIEFLY['GOMP_SPINCOUNT']} {BRIEFLY['KMP_BLOCKTIME']}"
    assert in_a_process(f"import glassformer; {ASK}") == expected
    assert in_a_process(f"import torch, glassformer; {ASK}") == "None None"  # it would be too late


@pytest.mark.parametrize("name", sorted(WAITING))
def test_what_the_user_decided_about_waiting_threads_stays(name: str) -> None:
    environment = {name: "given"}
    spin_briefly(environment, loaded={})
    assert environment == {name: "given"}


def test_processes_that_it_starts_inherit_it() -> None:
    child = f"import subprocess, sys, glassformer; subprocess.run([sys.executable, '-c', {ASK!r}])"
    assert in_a_process(child).startswith(BRIEFLY["GOMP_SPINCOUNT"])
