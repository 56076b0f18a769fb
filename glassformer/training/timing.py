"""How long a training will take, and how many steps fit into a time limit.

Each part of a training is done and timed: steps on batches from all over an epoch, a validation, a
sample, a saved model; for a time limit, the steps are those of Lightning's loop. The number of
steps follows, and with it everything that depends on it, so the learning rate schedule still runs
to its end. Nothing is planned again later: a run is a function of its recipe.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from glassformer.checkpoint.model_folder import save_model
from glassformer.evaluation.reading_progress import listening
from glassformer.runtime.host import Setup, silently
from glassformer.tasks import task_of
from glassformer.tasks.recipe import TrainingConfig
from glassformer.tasks.task import Objective, Say
from glassformer.training.finetuning import new_model
from glassformer.training.gradients import are_finite, clip
from glassformer.training.optimizer import make_optimizer
from glassformer.training.preparation import Prepared
from glassformer.wording import clock, counted

MOST_MEASURED = 300  # steps
PATIENCE = 2.0  # seconds after which no further step is tried, and a validation is broken off
SHARE = 0.02  # of a time limit: spent on measuring, if that is more
LOOP = 0.001  # seconds per batch around the loss and the update: hooks, logs, progress
RESERVE = 0.03  # of a time limit: for what varies
SETTING_UP = 3.0  # seconds from the plan to the first step, most of them to import Lightning
STARTING = 1.0  # the same if it is imported already
FEW = 50  # steps in which nothing much is learned


@dataclass(frozen=True)
class Pace:
    """Seconds that each part of a training takes."""

    step: float
    validation: float = 0.0
    """With its sample, and with saving the model as the best one."""
    saving: float = 0.0
    """A state, from which training can continue."""
    ending: float = 0.0
    """What is examined for the report."""


TrySteps = Callable[[Objective, Setup, nn.Module, Sequence[int], Path], tuple[float, float]]
"""Seconds of a step on batches of these numbers, and of saving a state."""


def within_time_limit(
    ready: Prepared,
    setup: Setup,
    say: Say = silently,
    spent: Callable[[], float] = lambda: 0.0,
    try_steps: TrySteps | None = None,
) -> Objective:
    """What to learn; in fewer steps, if the recipe has a time limit that requires it. `spent` are
    the seconds since the run began; `try_steps` are those of the real loop."""
    objective, limit = ready.objective(), ready.sized.training.time_limit
    if limit is None:
        return objective
    model = new_model(objective.recipe).to(setup.device)
    objective.initialize(model)  # what was counted in the data may decide what is computed
    folder = ready.dataset.folder.parent
    pace = measured(objective, setup, model, max(PATIENCE, SHARE * limit), folder, try_steps)
    objective = fewer_steps(ready, limit, pace, spent() + (STARTING if try_steps else SETTING_UP))
    steps = objective.config.max_steps
    plan = f"time limit: {counted(steps, 'step')} planned for {clock(limit)}"
    if steps < FEW:
        plan += "; that is very few: allow more time, or choose a smaller --preset"
    say(plan)
    return objective


def fewer_steps(ready: Prepared, limit: float, pace: Pace, spent: float = SETTING_UP) -> Objective:
    """What to learn within `limit` seconds, of which some are already spent."""
    objective = ready.objective()
    if not pace.step:  # of a task with its own way to train: there are no steps to count
        return objective
    most = objective.config.max_steps
    available = max(0.0, (1 - RESERVE) * limit - spent - pace.ending)
    fitting: list[Objective] = []
    for _ in range(6):  # fewer steps may mean fewer validations, which leaves time for more steps
        needed = seconds_of_training(objective, pace)
        if needed <= available:
            fitting.append(objective)
        steps = int(objective.config.max_steps * available / needed)
        objective = ready.objective(min(most, max(1, steps)))
    return max(fitting, key=lambda each: each.config.max_steps, default=objective)


def seconds_of_training(objective: Objective, pace: Pace, first: int = 0) -> float:
    """Seconds for all steps, validations and saved states after step `first`."""
    config = objective.config

    def times(every: int) -> int:
        return -(-config.max_steps // every) - first // every

    parts = times(config.eval_steps) * pace.validation + times(config.save_steps) * pace.saving
    return (config.max_steps - first) * pace.step + parts


def measured(
    objective: Objective,
    setup: Setup,
    model: nn.Module,
    patience: float = PATIENCE,
    folder: Path | None = None,
    try_steps: TrySteps | None = None,
) -> Pace:
    """The pace of a training; `folder` is on the disk that it will be saved to."""
    if task_of(objective.recipe.model_name).fit is not None:
        return Pace(0.0)  # trained in its own way, not by steps
    step = seconds_per_step(objective, setup, model, patience, is_rough=try_steps is not None)
    saving = _seconds_to_save(objective, model, folder)
    state = saving * bytes_per_parameter(objective.config) / 4  # as large as so many models
    if try_steps is not None and step < patience / 4:
        numbers = _spread(objective, max(2, min(MOST_MEASURED, int(patience / step / 2))))
        with TemporaryDirectory(prefix=".timing-", dir=folder) as scratch:
            step, state = try_steps(objective, setup, model, numbers, Path(scratch))
    sample = _seconds(lambda: objective.sample(model, 1), patience)
    validation = _seconds(lambda: objective.validate(model), patience) / objective.untrained_cost
    ending = _seconds(lambda: objective.examine(model), patience) / objective.untrained_cost
    return Pace(step, validation + sample + saving, state, ending)


class _EnoughReadError(Exception):
    """The rest of an evaluation follows from the part that was read."""


def _seconds(evaluation: Callable[[], object], patience: float) -> float:
    """Of an evaluation; if it takes long, extrapolated from a part of it."""
    first = _seconds_once(evaluation, patience)
    # The first time, kernels are chosen and memory is found.
    return first if first > patience / 4 else _seconds_once(evaluation, patience)


def _seconds_once(evaluation: Callable[[], object], patience: float) -> float:
    begin = time.perf_counter()
    before = total = 0.0  # seconds of what has been read to its end, and of everything

    def read(share: float) -> None:
        nonlocal before, total
        passed = time.perf_counter() - begin
        if share >= 1:
            before = passed
        elif passed - before > patience:
            total = before + (passed - before) / share
            raise _EnoughReadError

    # What a model says before it has learned anything may be refused; so it is not counted.
    with suppress(Exception), listening(read):
        evaluation()
    return total or time.perf_counter() - begin


def _seconds_to_save(objective: Objective, model: nn.Module, folder: Path | None) -> float:
    with TemporaryDirectory(prefix=".timing-", dir=folder) as scratch:
        for _ in range(2):  # the first time, the disk and its caches warm up
            begin = time.perf_counter()
            save_model(Path(scratch) / "model", model, objective.dataset.preprocessing, "")
        return time.perf_counter() - begin


def seconds_per_step(
    objective: Objective,
    setup: Setup,
    model: nn.Module,
    patience: float = PATIENCE,
    is_rough: bool = False,
) -> float:
    """The mean of some steps on batches from all over an epoch, each done twice: the first time,
    kernels are chosen and memory is found for its shape.

    A large model is tried with few items first, and if that takes long, with no more. A rough
    answer comes from the first whole batch.
    """
    config = objective.config
    batch, accumulated = config.per_device_train_batch_size, config.gradient_accumulation_steps
    optimizer = make_optimizer(
        config.optimizer,
        model,
        learning_rate=1e-5,
        weight_decay=config.weight_decay,
        betas=(0.9, 0.99),
    )
    device, dtype = torch.device(setup.device), getattr(torch, setup.precision)

    def seconds(items: int | None, number: int = 0) -> tuple[float, float]:
        """Seconds to learn from this many items of a batch, and seconds to update the weights."""
        begin = time.perf_counter()
        inputs = moved(objective.batch(number, most=items), device)
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            loss = objective.loss(model, inputs)
        loss.backward()
        loss.item()  # waits for the device
        learned = time.perf_counter()
        are_finite(model.parameters())
        clip(model.parameters(), config.max_grad_norm or 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return learned - begin, time.perf_counter() - learned

    tried = 1
    learning, update = min(seconds(tried), seconds(tried))  # the very first warms up
    while tried < batch and 2 * learning < patience:
        tried = min(2 * tried, batch)
        learning, update = seconds(tried)
    if tried == batch and learning < patience and not is_rough:
        numbers = _spread(objective, max(2, min(MOST_MEASURED, int(patience / learning / 2))))
        for number in numbers:
            seconds(None, number)
        found = [seconds(None, number) for number in numbers]
        learning, update = (sum(times) / len(found) for times in zip(*found, strict=True))
    return (learning * batch / tried + LOOP) * accumulated + update


def _spread(objective: Objective, count: int) -> list[int]:
    """Numbers of batches at equal distances in the first epoch, or in a shorter training."""
    config = objective.config
    in_training = config.max_steps * config.batches_per_update
    last = max(1, min(int(objective.batches.per_epoch), in_training))
    return [number * last // count for number in range(count)]


def moved(batch: Any, device: torch.device) -> Any:
    """A batch, or each of its parts, on the device."""
    if isinstance(batch, tuple):
        return type(batch)(*(moved(part, device) for part in batch))
    return batch.to(device)


def bytes_per_parameter(config: TrainingConfig) -> int:
    """In training: weight, gradient, at most two averages and perhaps the running mean."""
    return 20 if config.ema else 16
