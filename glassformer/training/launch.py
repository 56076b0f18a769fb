"""Start the processes of a run that trains on several devices, and watch over them.

torch's own launcher (that of torchrun) does it. If a process fails, it ends the others, and the run
ends with one sentence; its last saved state is what `--resume` continues from.
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

from glassformer.errors import GlassformerError, UsageError
from glassformer.machine import processes
from glassformer.machine.facts import usable_cores, usable_cpus
from glassformer.machine.processes import LONGEST_WAIT, SIGNALS
from glassformer.models import row
from glassformer.models.stack import StackConfig
from glassformer.tasks import task_of
from glassformer.tasks.recipe import Recipe, TrainingConfig
from glassformer.training.progress import without_handlers
from glassformer.training.run_folder import RunFolder
from glassformer.wording import command, counted

# --- launch plan ---
# How many processes train a run, on how many machines; what torchrun decided, what this machine
# can do, and what a resumed run did before.

NODE, ADDRESS, PORT = "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"


def with_processes(recipe: Recipe) -> Recipe:
    """The recipe with the number of processes that torchrun has started, if it has; an error if
    there cannot be so many."""
    peer, config = processes.here(), recipe.training
    if peer is not None:
        asked = config.model_fields_set & {"devices", "num_nodes"}
        started = {"devices": peer.size_of_node, "num_nodes": peer.num_nodes}
        if wrong := [key for key in asked if getattr(config, key) not in (1, started[key])]:
            key = wrong[0]
            raise UsageError(
                f"--{key.replace('_', '-')} is {getattr(config, key)}, but torchrun has started "
                f"{counted(peer.size, 'process')}. Leave it out."
            )
        recipe = recipe.with_training(**started)
        config = recipe.training
    if config.num_processes > 1:
        _check(recipe)
    return recipe


def _check(recipe: Recipe) -> None:
    config = recipe.training
    if task_of(recipe.model_name).fit is not None:
        raise UsageError(f"{recipe.model_name} is trained in one process. Leave out --devices.")
    if config.strategy == "fsdp" and not issubclass(row(recipe.model_name).config, StackConfig):
        raise UsageError(
            f"--strategy fsdp divides the blocks of a Transformer: {recipe.model_name} cannot be "
            "divided. Use --strategy ddp."
        )
    if config.device == "mps":
        raise UsageError("an Apple GPU is one device. Leave out --devices, or use device cpu.")
    there, kind = _devices(config.device)
    if config.devices > there:
        raise UsageError(
            f"--devices is {config.devices}, but this machine has {counted(there, kind)}. Pass at "
            f"most --devices {there}."
        )


def _devices(device: str) -> tuple[int, str]:
    """How many of them there are; on a CPU each process needs a core."""
    if device != "cpu":
        import torch

        if count := torch.cuda.device_count():
            return count, "GPU"
    return usable_cores(usable_cpus()), "core"


def divide_anew(recipe: Recipe, before: Recipe) -> Recipe:
    """A recipe that continues `before` on another number of processes: an update consists of the
    same batches."""
    count, total = recipe.training.num_processes, before.training.batches_per_update
    if recipe.training.batches_per_update == total:
        return recipe
    if count == before.training.num_processes:
        return recipe  # the number of batches itself was changed, on purpose
    if total % count:
        raise GlassformerError(
            f"each update of this run is made of {counted(total, 'batch')}, which "
            f"{counted(count, 'process')} cannot share equally. Choose a number of "
            f"devices that divides {total}."
        )
    return recipe.with_training(gradient_accumulation_steps=total // count)


def node_rank(config: TrainingConfig) -> int:
    """The number of this machine among those that train together."""
    if config.num_nodes == 1:
        return 0
    values = [os.environ.get(name, "") for name in (NODE, ADDRESS, PORT)]
    rank, _, port = values
    if not all(values) or not (rank.isdecimal() and port.isdecimal()):
        raise UsageError(
            f"--num-nodes {config.num_nodes} needs to know the other machines. Run the same "
            f"command on each of them with {NODE}=0, 1, …, {ADDRESS}=the name of the first one and "
            f"{PORT}=a free port there, or start it with torchrun."
        )
    if int(rank) >= config.num_nodes:
        raise UsageError(f"{NODE} is {rank}, but --num-nodes {config.num_nodes} counts from 0.")
    return int(rank)


def is_other_node(config: TrainingConfig) -> bool:
    """Whether another machine prepares the run, and this one only trains with it."""
    return processes.here() is None and node_rank(config) > 0


# --- launch ---

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
            if codes <= {128 + number for number in SIGNALS}:  # all of them were told to stop
                return max(codes) - 128
            raise GlassformerError(_reason(failed.failures, config, run)) from None
    return None


def _config(config: TrainingConfig, reports: str) -> LaunchConfig:
    more: dict[str, Any] = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    if config.num_nodes > 1:
        endpoint = f"{os.environ[ADDRESS]}:{os.environ[PORT]}"
        waiting = {"rank": node_rank(config), "timeout": int(LONGEST_WAIT.total_seconds())}
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
    if said := _reported(failure):
        return said
    how = f"ended with exit code {failure.exitcode}"
    if failure.exitcode < 0:
        how = f"was ended by {failure.signal_name()}"
    again = command("train", "--resume", "--out", run.path)
    step = run.last_step()
    where = f"Continue from step {step:,} with" if step else "Start again with"
    return f"process {rank + 1} of {config.num_processes} {how}. {where}: {again}"


def _reported(failure: Any) -> str:
    """The sentence that a process left for us, if any."""
    said = failure.error_file_data.get(SENTENCE)
    return said if isinstance(said, str) else ""


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
    before = [(each, each.level) for each in loggers]
    for each, _ in before:
        each.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for each, level in before:
            each.setLevel(level)
