"""Several pieces of work at a time, each on one thread of its own.

A small product of matrices does not get faster by a second core, and what stands between two of
them does not either. Two searches side by side do.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

ItemT = TypeVar("ItemT")
FoundT = TypeVar("FoundT")


def side_by_side(work: Callable[[ItemT], FoundT], items: Sequence[ItemT]) -> Iterator[FoundT]:
    """`map`, with as many at a time as torch may use threads; what is found comes in order.

    Modes such as no_grad hold for one thread: `work` has to set its own.
    """
    import torch

    threads = torch.get_num_threads()
    if threads == 1 or len(items) < 2:
        yield from map(work, items)
        return

    def alone(item: ItemT) -> FoundT:
        torch.set_num_threads(1)  # of this thread
        return work(item)

    pool = ThreadPoolExecutor(threads)
    try:
        yield from pool.map(alone, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
