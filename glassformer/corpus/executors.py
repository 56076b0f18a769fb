"""Running a step in many tasks: on this machine, on a Slurm cluster or on Ray, by datatrove.

Each task that is finished is marked in the working folder, so that a build that was killed
continues with those that are not. datatrove reports at length: what it prints goes to files.
"""

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

from glassformer.corpus import EXTRA
from glassformer.errors import GlassformerError, UsageError, require

# --- processes of this machine ---
#
# datatrove's own pool leaves processes behind when the program is killed, and waits forever for a
# worker that was. Here, a worker ends with the program, and a worker that is lost is an error.

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


# --- datatrove's executors ---

Kind = Literal["local", "slurm", "ray"]
Progress = Callable[[str, int, int], None]
"""Is told which step runs, how many of its tasks are finished, and how many there are."""

_OPTIONS = {  # of datatrove's executors, with their types
    "slurm": {"partition": str, "time": str, "qos": str, "cpus_per_task": int}
    | {"mem_per_cpu_gb": int, "env_command": str, "condaenv": str, "venv_path": str}
    | {"max_array_size": int, "mail_user": str},
    "ray": {"cpus_per_task": int, "mem_per_cpu_gb": float, "time": int},
}
_POLL = 0.3  # seconds between two looks at the finished tasks
_SLURM_POLL = 5.0


class Executor:
    """Where the work is done. As a context, it ends its worker processes."""

    def __init__(
        self,
        kind: Kind = "local",
        workers: int = 1,
        options: dict[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.kind, self.workers, self.options = kind, workers, options or {}
        self.progress = progress
        self._local = LocalTasks(workers)

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *error: object) -> None:
        self._local.close()

    def run(self, name: str, step: Any, num_tasks: int, logs: Path) -> None:
        """Run `step` once for each task that is not finished, and wait for all of them."""
        from loguru import logger

        folder = logs / name
        folder.mkdir(parents=True, exist_ok=True)
        watched = _watched(self.progress, name, folder, num_tasks)
        with (folder / "datatrove.log").open("a") as log, watched:
            with contextlib.redirect_stderr(log), contextlib.redirect_stdout(log):
                executor = self.prepared(step, num_tasks, folder)
                logger.remove()  # what it prints on the terminal
                if self.kind == "local":
                    self._local.run(executor, executor.get_incomplete_ranks(), folder)
                else:
                    executor.run()
            if self.kind == "slurm":
                while _num_finished(folder) < num_tasks and _is_queued(executor.job_id):
                    time.sleep(_SLURM_POLL)
        if (missing := num_tasks - _num_finished(folder)) > 0:
            raise GlassformerError(
                f"{missing:,} tasks of the step {name} failed. Their logs are in {folder}; run the "
                "same command again to repeat them."
            )

    def prepared(self, step: Any, num_tasks: int, folder: Path) -> Any:
        """The executor of datatrove, ready to run."""
        arguments = {"pipeline": [step], "tasks": num_tasks, "logging_dir": str(folder)}
        arguments["workers"] = self.workers
        if self.kind == "slurm":
            from datatrove.executor.slurm import SlurmPipelineExecutor

            return SlurmPipelineExecutor(**arguments | {"job_name": folder.name} | self.options)
        if self.kind == "ray":
            from datatrove.executor.ray import RayPipelineExecutor

            return RayPipelineExecutor(**arguments | self.options)
        from datatrove.executor.local import LocalPipelineExecutor

        return LocalPipelineExecutor(**arguments)


def make_executor(
    kind: Kind | None,
    workers: int | None = None,
    assignments: list[str] | None = None,
    progress: Progress | None = None,
) -> Executor:
    """An executor from options of the command line. Raises if it cannot run here."""
    kind, workers = kind or "local", workers or os.cpu_count() or 1
    types: dict[str, Any] = _OPTIONS.get(kind, {})
    options: dict[str, Any] = {}
    for assignment in assignments or ():
        name, is_pair, value = assignment.partition("=")
        if not is_pair or name not in types:
            names = ", ".join(types) or "none for local"
            raise UsageError(
                f"--executor-options {assignment}: pass KEY=VALUE, with KEY one of {names}."
            )
        try:
            options[name] = types[name](value)
        except ValueError:
            raise UsageError(
                f"--executor-options {assignment}: the value must be a number."
            ) from None
    if kind == "slurm":
        if missing := [name for name in ("partition", "time") if name not in options]:
            raise UsageError(f"--executor slurm needs --executor-options {missing[0]}=….")
        if shutil.which("sbatch") is None:
            raise GlassformerError(
                "there is no Slurm here (no sbatch). Run it on a login node of the cluster, or "
                "pass --executor local."
            )
    if kind == "ray":
        require("ray", problem="--executor ray needs Ray.")
    return Executor(kind, workers, options, progress)


def _is_queued(job: Any) -> bool:
    """Whether Slurm still has a job, waiting or running."""
    listing = subprocess.run(["squeue", "-h", "-j", str(job)], capture_output=True, check=False)
    return bool(listing.stdout.strip())


def _num_finished(folder: Path) -> int:
    completions = folder / "completions"
    return len(list(completions.iterdir())) if completions.is_dir() else 0


@contextlib.contextmanager
def _watched(progress: Progress | None, name: str, folder: Path, num_tasks: int) -> Iterator[None]:
    """Report the progress of a step while it runs."""
    if progress is None:
        yield
        return
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_POLL):
            progress(name, _num_finished(folder), num_tasks)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        progress(name, num_tasks, num_tasks)


def check_packages() -> None:
    """Raise if the packages that build a corpus are not installed."""
    needed = ("datatrove", "trafilatura", "lxml_html_clean", "py3langid", "xxhash", "regex")
    require(*needed, problem="building a corpus needs further packages.", to_install=EXTRA)
