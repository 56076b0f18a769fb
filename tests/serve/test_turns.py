"""One computation at a time, a short queue, and an end for what takes too long."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from glassformer.machine.threads import NotWantedError, check_wanted
from glassformer.serve.app import BusyError, TooSlowError, Turns


async def stays() -> bool:
    return False


async def leaves() -> bool:
    return True


def endless(ended: list[str]) -> Callable[[], None]:
    """Work that ends only when it is no longer wanted."""

    def work() -> None:
        try:
            while True:
                check_wanted()
                time.sleep(0.001)
        except NotWantedError:
            ended.append("ended")
            raise

    return work


def test_only_one_computes_at_a_time() -> None:
    turns, running, most = Turns(1), [0], [0]

    def work() -> int:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.01)
        running[0] -= 1
        return threading.get_ident()

    async def all_together() -> set[int]:
        return {*await asyncio.gather(*(turns.take(work, stays) for _ in range(5)))}

    assert len(asyncio.run(all_together())) == 1
    assert most == [1]
    turns.end()


def test_a_full_queue_refuses() -> None:
    async def flood() -> list[Any]:
        turns = Turns(1, most_waiting=2)
        gate = threading.Event()
        waiting = [asyncio.create_task(turns.take(gate.wait, stays)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError, match="busy"):
            await turns.take(gate.wait, stays)
        gate.set()
        found = await asyncio.gather(*waiting)
        found.append(await turns.take(lambda: "again", stays))
        turns.end()
        return found

    assert asyncio.run(flood()) == [True, True, True, "again"]


def test_what_nobody_waits_for_ends() -> None:
    ended: list[str] = []
    turns = Turns(1)
    with pytest.raises(NotWantedError):
        asyncio.run(turns.take(endless(ended), leaves))
    assert asyncio.run(turns.take(lambda: "next", stays)) == "next"
    assert ended == ["ended"]
    turns.end()


def test_the_end_of_what_nobody_waits_for_is_no_error_at_the_terminal() -> None:
    async def leave() -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: said.append(context))
        turns = Turns(1)
        with pytest.raises(NotWantedError):
            await turns.take(endless([]), leaves)
        await turns.take(lambda: None, stays)  # after the other has ended
        gc.collect()
        turns.end()
        return said

    assert asyncio.run(leave()) == []


def test_what_takes_too_long_ends() -> None:
    ended: list[str] = []
    turns = Turns(1, seconds=0.3)
    with pytest.raises(TooSlowError, match="Use a shorter text"):
        asyncio.run(turns.take(endless(ended), stays))
    assert asyncio.run(turns.take(lambda: list(ended), stays)) == ["ended"]
    turns.end()


def test_the_end_of_the_server_ends_what_runs_and_what_waits() -> None:
    ended: list[str] = []

    async def both() -> list[Any]:
        turns = Turns(1)
        tasks = [asyncio.create_task(turns.take(endless(ended), stays)) for _ in range(2)]
        await asyncio.sleep(0.05)
        turns.end()
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(both())
    assert isinstance(found[0], NotWantedError)
    assert isinstance(found[1], NotWantedError | asyncio.CancelledError)
    assert ended == ["ended"]


def test_an_error_of_the_work_is_passed_on() -> None:
    def fail() -> None:
        raise ValueError("no")

    turns = Turns(1)
    with pytest.raises(ValueError, match="no"):
        asyncio.run(turns.take(fail, stays))
    turns.end()
