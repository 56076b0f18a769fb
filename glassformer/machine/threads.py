"""Threads: how long they spin while they wait, and several pieces of work at a time.

    spin_briefly()                  before torch is loaded: threads that wait sleep soon
    side_by_side(work, items)       `map`, with as many items at a time as torch may use threads
    check_wanted()                  ends long work for which nobody waits any more

A small product of matrices does not get faster by a second core, and what stands between two of
them does not either. Two searches side by side do.
"""

import os
import sys
import threading
from collections.abc import Callable, Container, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_mine = threading.local()

# How long a thread of OpenMP spins before it sleeps, by the name that each library reads.
BRIEFLY = {
    "GOMP_SPINCOUNT": "5000",  # GNU: rounds, by default 300,000, which take about a millisecond
    "KMP_BLOCKTIME": "0",  # Intel and LLVM: milliseconds, by default 200
}
WAITING = {*BRIEFLY, "OMP_WAIT_POLICY"}  # by any of these, the user has decided


def spin_briefly(
    environment: MutableMapping[str, str] = os.environ, loaded: Container[str] = sys.modules
) -> None:
    """Let threads that wait for each other sleep soon.

    A thread that spins burns the time slice of the thread that it waits for as soon as anything
    else computes on this machine: a training then has a sixteenth of its speed, not a third. Torch
    reads this when it is loaded, so it has no effect later.
    """
    if "torch" not in loaded and not WAITING & environment.keys():
        environment.update(BRIEFLY)


class NotWantedError(Exception):
    """Nobody waits for this piece of work any more."""


def side_by_side(work: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> Iterator[ResultT]:
    """`map`, with as many at a time as torch may use threads; the results come in order.

    Modes such as no_grad hold for one thread: `work` has to set its own. The number of torch's
    threads is changed meanwhile, for the whole process: one call at a time.
    """
    import torch

    threads = torch.get_num_threads()
    workers = min(threads, len(items))
    if workers < 2:
        yield from map(work, items)
        return
    is_over = threading.Event()

    def share_threads() -> None:
        torch.set_num_threads(threads // workers)
        _mine.is_over = is_over

    pool = ThreadPoolExecutor(workers, initializer=share_threads)
    try:
        yield from pool.map(work, items)
    finally:
        is_over.set()
        try:
            pool.shutdown(cancel_futures=True)
        finally:
            torch.set_num_threads(threads)


@contextmanager
def wanted_until(is_over: threading.Event) -> Iterator[None]:
    """Inside, `check_wanted` raises as soon as another thread sets the event."""
    before = getattr(_mine, "is_over", None)
    _mine.is_over = is_over
    try:
        yield
    finally:
        _mine.is_over = before


def check_wanted() -> None:
    """To be called now and then by long work: ends it after an error elsewhere, or Ctrl-C."""
    is_over = getattr(_mine, "is_over", None)
    if is_over is not None and is_over.is_set():
        raise NotWantedError
