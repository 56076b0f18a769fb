"""How long a training will take: a few real steps are made, and their time is extrapolated."""

import time
from typing import Any

import torch
from torch import nn

from glassformer.runtime.host import Setup
from glassformer.tasks import task_of
from glassformer.tasks.recipe import TrainingConfig
from glassformer.tasks.task import Objective
from glassformer.training.optimizer import make_optimizer

MEASURED_STEPS = 8  # batches may differ in length
PATIENCE = 2.0  # seconds after which no further step is tried


def seconds_of_training(objective: Objective, seconds_per_step: float, first: int = 0) -> float:
    """Seconds for all steps and validations after step `first`. Reading an item costs a third of
    learning from it."""
    config = objective.config
    validations = -(-config.max_steps // config.eval_steps) - first // config.eval_steps
    read = validations * objective.dataset.num_validation_items / 3
    return seconds_per_step * (config.max_steps - first + read / objective.items_per_step)


def seconds_per_step(objective: Objective, setup: Setup, model: nn.Module) -> float:
    """The mean of a few steps, after some that warm up.

    A large model is tried with few items first, and if that takes long, with no more.
    """
    config = objective.config
    if task_of(objective.recipe.model_name).fit is not None:
        return 0.0  # trained in its own way, not by steps
    batch, accumulated = config.per_device_train_batch_size, config.gradient_accumulation_steps
    optimizer = make_optimizer(
        config.optimizer, model, learning_rate=1e-3, weight_decay=0.1, betas=(0.9, 0.99)
    )
    device, dtype = torch.device(setup.device), getattr(torch, setup.precision)

    def seconds(items: int, number: int = 0) -> tuple[float, float]:
        """Seconds to learn from this many items, and seconds to update the weights."""
        begin = time.perf_counter()
        inputs = moved(objective.batch(number, most=items), device)
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            loss = objective.loss(model, inputs)
        loss.backward()
        loss.item()  # waits for the device
        learned = time.perf_counter()
        optimizer.step()
        optimizer.zero_grad()
        return learned - begin, time.perf_counter() - learned

    tried = 1
    learning, update = min(seconds(tried), seconds(tried))  # the very first warms up
    while tried < batch and 2 * learning < PATIENCE:
        tried = min(2 * tried, batch)
        learning, update = seconds(tried)
    if tried == batch and learning < PATIENCE:
        enough = max(2, min(MEASURED_STEPS, int(PATIENCE / learning)))
        found = [seconds(batch, number) for number in range(enough)]
        learning, update = (sum(times) / enough for times in zip(*found, strict=True))
    return learning * batch / tried * accumulated + update


def moved(batch: Any, device: torch.device) -> Any:
    """A batch, or each of its parts, on the device."""
    if isinstance(batch, tuple):
        return type(batch)(*(moved(part, device) for part in batch))
    return batch.to(device)


def bytes_per_parameter(config: TrainingConfig) -> int:
    """In training: weight, gradient, at most two averages and perhaps the running mean."""
    return 20 if config.ema else 16
