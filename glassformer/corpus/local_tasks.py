"""Running the tasks of a datatrove executor in processes of this machine.

datatrove's own pool leaves processes behind when the program is killed, and waits forever for a
worker that was. Here, a worker ends with the program, and a worker that is lost is an error.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError

_WATCH = 0.2  # seconds between two looks at the parent process


class LocalTasks:
    """Worker processes, started when they are first needed, for all steps of a build."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def run(self, executor: Any, ranks: Sequence[int], folder: Path) -> None:
        """Run these tasks; the first error ends all."""
        if self._workers == 1 or len(ranks) <= 1:
            for rank in ranks:
                run_task(executor, rank, folder)
            return
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._workers, context, _follow, (os.getpid(),))
        futures = [self._pool.submit(run_task, executor, rank, folder) for rank in ranks]
        try:
            for future in as_completed(futures):
                future.result()
        except BrokenProcessPool:
            raise GlassformerError(
                "a worker process was killed, perhaps because memory ran out. Run the same command "
                "again with fewer --workers: what is finished is kept."
            ) from None

    def close(self) -> None:
        """End the workers, also those in the middle of a task."""
        pool, self._pool = self._pool, None
        if pool is not None:
            for child in list((pool._processes or {}).values()):
                child.kill()
            pool.shutdown(wait=True, cancel_futures=True)


def run_task(executor: Any, rank: int, folder: Path) -> None:
    """Run one task. What datatrove would show in the terminal goes to a file."""
    from loguru import logger

    fresh = deepcopy(executor)  # a step may keep what belongs to one task
    with (folder / f"task-{rank:05}.log").open("a") as log, contextlib.redirect_stderr(log):
        try:
            fresh._run_for_rank(rank)
        finally:
            logger.remove()


def _follow(parent: int) -> None:
    """Make this process end when its parent does; Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
