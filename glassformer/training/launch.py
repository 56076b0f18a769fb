"""Start the processes of a run that trains on several devices, and watch over them.

torch's own launcher (that of torchrun) does it. The command itself prepares the data, holds the
lock of the run, tests and reports; only the steps run elsewhere (`worker.py`). If a process fails,
it ends the others, and the run ends with one sentence; its last saved state is what `--resume`
continues from.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from glassformer.errors import GlassformerError
from glassformer.machine.processes import ADDRESS, LONGEST_WAIT, PORT, SIGNALS, node_rank
from glassformer.tasks.recipe import TrainingConfig
from glassformer.training.progress import without_handlers
from glassformer.training.run_folder import RunFolder
from glassformer.wording import command

WORKER = "glassformer.training.worker"
SENTENCE = "sentence"  # the key of what a process reports
TIME_TO_STOP = 600  # seconds to finish a step and save it


def train_in_processes(
    run: RunFolder, config: TrainingConfig, until: int | None, began: float | None = None
) -> int | None:
    """Train a run that has been set up; the signal that stopped it, if one did."""
    began = time.time() if began is None else began
    words = ["-m", WORKER, str(run.path), str(until or 0), str(int(run.is_forced)), str(began)]
    # The launcher has handlers of its own, and keeps what processes report in a folder.
    with (
        _quiet(),
        _threads(config),
        without_handlers(),
        TemporaryDirectory(prefix="glassformer-") as reports,
    ):
        try:
            elastic_launch(_config(config, reports), sys.executable)(*words)
        except SignalException as stopped:
            return int(stopped.sigval)
        except ChildFailedError as failed:
            codes = {failure.exitcode for failure in failed.failures.values()}
            if codes <= {128 + stop for stop in SIGNALS}:  # all of them were told to stop
                return max(codes) - 128
            raise GlassformerError(_reason(failed.failures, config, run)) from None
    return None


def _config(config: TrainingConfig, reports: str) -> LaunchConfig:
    more: dict[str, Any] = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    if config.num_nodes > 1:
        endpoint = f"{os.environ[ADDRESS]}:{os.environ[PORT]}"
        seconds = int(LONGEST_WAIT.total_seconds())
        waiting = {"rank": node_rank(config.num_nodes), "timeout": seconds}
        more = {"rdzv_backend": "static", "rdzv_endpoint": endpoint, "rdzv_configs": waiting}
    return LaunchConfig(
        min_nodes=config.num_nodes,
        max_nodes=config.num_nodes,
        nproc_per_node=config.devices,
        logs_specs=DefaultLogsSpecs(log_dir=reports),
        run_id="glassformer",
        max_restarts=0,
        shutdown_timeout=TIME_TO_STOP,
        **more,
    )


def _reason(failures: Mapping[int, Any], config: TrainingConfig, run: RunFolder) -> str:
    """Why a training ended. When one process ends, the others fail, too, or are told to end: what
    the first one reported, or the signal that killed it, comes before that."""

    def order(item: tuple[int, Any]) -> tuple[bool, bool, int]:
        rank, failure = item
        is_killed = failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM
        return not _reported(failure), not is_killed, rank

    rank, failure = min(failures.items(), key=order)
    if sentence := _reported(failure):
        return sentence
    how = f"ended with exit code {failure.exitcode}"
    if failure.exitcode < 0:
        how = f"was ended by {failure.signal_name()}"
    again = command("train", "--resume", "--out", run.path)
    step = run.last_step()
    where = f"Continue from step {step:,} with" if step else "Start again with"
    return f"process {rank + 1} of {config.num_processes} {how}. {where}: {again}"


def _reported(failure: Any) -> str:
    """The sentence that a process left for us, if any."""
    sentence = failure.error_file_data.get(SENTENCE)
    return sentence if isinstance(sentence, str) else ""


@contextmanager
def _threads(config: TrainingConfig) -> Iterator[None]:
    """Limit the threads that torch starts in the processes started inside, beside those that
    compute on the same cores. Later trainings in this session choose for themselves."""
    name = "OMP_NUM_THREADS"
    is_open = name not in os.environ
    os.environ.setdefault(name, str(config.num_threads or 1))
    try:
        yield
    finally:
        if is_open:
            del os.environ[name]


@contextmanager
def _quiet() -> Iterator[None]:
    """The launcher reports what we report in a sentence."""
    loggers: Iterable[logging.Logger] = [
        logging.getLogger(name)
        for name in list(logging.root.manager.loggerDict)
        if name.startswith("torch.distributed.elastic")
    ]
    before = [(logger, logger.level) for logger in loggers]
    for logger, _ in before:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in before:
            logger.setLevel(level)
