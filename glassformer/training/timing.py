"""How long a step takes, tried on real ones: for the number of threads, and for a dry run.

A step is the loop's own (`loop.learn`), on a model that is thrown away.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import nn

from glassformer.checkpoint.model_folder import save_model
from glassformer.runtime.host import Setup
from glassformer.tasks import task_of
from glassformer.tasks.recipe import TrainingConfig
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import new_model
from glassformer.training.time_limit import ENDING, Pace, time_evaluations

if TYPE_CHECKING:
    from glassformer.training.learner import Learner

MOST_MEASURED = 300  # steps
PATIENCE = 2.0  # seconds after which no further step is tried, and a validation is broken off
LARGE = 0.3  # seconds of a step: only a part of its rows is tried; one row is worth every core
BLOCK = 0.08  # seconds of steps with one number of threads before another is tried
CLEARLY = 1.1  # fewer threads must be this many times as fast


def choose_threads(objective: Objective, setup: Setup) -> int:
    """The number of threads with which this model learns fastest now: two threads that wait for
    each other are slower than one if the model is small, or another program computes."""
    recipe = objective.recipe
    is_open = recipe.training.num_threads is None and recipe.training.num_processes == 1
    has_steps = task_of(recipe.model_name).fit is None
    if not (is_open and has_steps and setup.device == "cpu" and setup.threads > 1):
        return setup.threads
    learner, rows = _learner(objective, setup), objective.config.per_device_train_batch_size
    counts = [setup.threads]
    while counts[-1] > 1:
        counts.append(counts[-1] // 2)
    _seconds(learner, 1, rows=1)  # the very first warms up
    while _seconds(learner, 1, rows) > LARGE:
        if rows == 1:
            return setup.threads
        rows = max(1, rows // 4)
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    try:
        for count in counts * 2:  # twice, since what else runs comes and goes
            torch.set_num_threads(count)
            _seconds(learner, 1, rows)  # threads start
            begin = time.perf_counter()
            while time.perf_counter() < begin + BLOCK:
                seconds[count].append(_seconds(learner, 1 + len(seconds[count]), rows))
    finally:
        torch.set_num_threads(setup.threads)
    mean = {count: sum(times) / len(times) for count, times in seconds.items()}
    best = min(counts, key=lambda count: mean[count])
    return best if mean[best] * CLEARLY < mean[setup.threads] else setup.threads


def measured(objective: Objective, setup: Setup, model: nn.Module) -> Pace:
    """The pace of a training, for a dry run."""
    if task_of(objective.recipe.model_name).fit is not None:
        return Pace(0.0)  # trained in its own way, not by steps
    step = _seconds_per_step(objective, setup)
    with TemporaryDirectory(prefix=".timing-") as scratch:
        for _ in range(2):  # the first time, the disk and its caches warm up
            begin = time.perf_counter()
            save_model(Path(scratch) / "model", model, objective.dataset.preprocessing, "")
        saving = time.perf_counter() - begin
    state = saving * bytes_per_parameter(objective.config) / 4  # as large as so many models
    validation, ending = time_evaluations(objective, model, PATIENCE)
    return Pace(step, validation + saving, state, ENDING + ending)


def _seconds_per_step(objective: Objective, setup: Setup) -> float:
    """The mean of steps on batches from all over an epoch. A large model is tried with few rows
    first, and if that takes long, with no more."""
    learner, config = _learner(objective, setup), objective.config
    batch, rows = config.per_device_train_batch_size, 1
    seconds = min(_seconds(learner, 1, rows), _seconds(learner, 1, rows))  # the first warms up
    while rows < batch and 2 * seconds < PATIENCE:
        rows = min(2 * rows, batch)
        seconds = _seconds(learner, 1, rows)
    if rows < batch:
        return seconds * batch / rows
    count = max(2, min(MOST_MEASURED, int(PATIENCE / seconds / 2)))
    in_epoch = objective.batches.per_epoch / config.batches_per_update
    last = max(1, min(int(in_epoch), config.max_steps))
    # Each shape of batch is seen twice: the first time, memory is found for it.
    for _ in range(2):
        times = [_seconds(learner, 1 + number * last // count) for number in range(count)]
    return sum(times) / count


def _learner(objective: Objective, setup: Setup) -> "Learner":
    from glassformer.training.learner import Learner  # here: Lightning takes a second to import

    model = new_model(objective.recipe).to(setup.device)
    objective.initialize(model)  # what was counted in the data may decide what is computed
    return Learner(model, objective, setup)


def _seconds(learner: "Learner", step: int, rows: int | None = None) -> float:
    from glassformer.training.loop import learn

    begin = time.perf_counter()
    learn(learner, step, rate=0.0, most=rows)
    return time.perf_counter() - begin


def bytes_per_parameter(config: TrainingConfig) -> int:
    """In training: weight, gradient, at most two averages and perhaps the running mean."""
    return 20 if config.ema else 16
