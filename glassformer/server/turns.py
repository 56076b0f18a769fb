"""One computation of a model at a time, on a thread of its own; others wait in a short queue."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from glassformer.errors import GlassformerError
from glassformer.runtime.threads import NotWantedError, check_wanted, wanted_until

FoundT = TypeVar("FoundT")

MOST_WAITING = 4  # computations of a model, beside the one that runs
SECONDS = 120.0  # that a computation may take, waiting included
_PATIENCE = 0.2  # seconds between two looks at whether somebody still waits


class BusyError(GlassformerError):
    """Too many computations wait already."""


class TooSlowError(GlassformerError):
    """A computation took too long."""


class Turns:
    """The queue of one model."""

    def __init__(
        self, num_threads: int, most_waiting: int = MOST_WAITING, seconds: float = SECONDS
    ) -> None:
        """`num_threads` is how many of torch's threads a computation may use."""

        def prepare() -> None:
            import torch

            torch.set_num_threads(num_threads)

        self._pool = ThreadPoolExecutor(1, "glassformer-model", initializer=prepare)
        self._most, self._seconds = 1 + most_waiting, seconds
        self._ends: set[threading.Event] = set()
        """One event for each computation that runs or waits; to set it ends the computation."""
        self._is_over = False

    async def take(
        self, work: Callable[[], FoundT], is_unwanted: Callable[[], Awaitable[bool]]
    ) -> FoundT:
        """What `work` returns. It ends early, by NotWantedError, if it calls `check_wanted` after
        `is_unwanted` or the time limit came true."""
        if self._is_over:
            raise NotWantedError
        if len(self._ends) >= self._most:
            raise BusyError("the model is busy with other requests. Try again in a second.")
        is_over = threading.Event()

        def on_its_turn() -> FoundT:
            with wanted_until(is_over):
                check_wanted()  # it may have waited for long
                return work()

        self._ends.add(is_over)
        future = self._pool.submit(on_its_turn)
        future.add_done_callback(lambda _: self._ends.discard(is_over))
        try:
            return await self._finished(future, is_unwanted)
        finally:
            is_over.set()
            future.cancel()

    async def _finished(
        self, future: "Future[FoundT]", is_unwanted: Callable[[], Awaitable[bool]]
    ) -> FoundT:
        waiting = asyncio.wrap_future(future)
        # Of work that nobody waits for any more, asyncio would print the error.
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        for _ in range(max(1, round(self._seconds / _PATIENCE))):
            done, _ = await asyncio.wait({waiting}, timeout=_PATIENCE)
            if done:
                return waiting.result()
            if await is_unwanted():
                raise NotWantedError
        raise TooSlowError(
            f"the model needs more than {self._seconds:.0f} seconds for this. Use a shorter text."
        )

    def end(self) -> None:
        """End everything that runs or waits, as soon as it looks; nothing can be started again.

        Like `take`, for the thread of the event loop only: a signal may come while that holds a
        lock of the pool."""
        self._is_over = True
        for is_over in list(self._ends):
            is_over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
