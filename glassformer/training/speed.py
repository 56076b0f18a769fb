"""How long a training will take: a few real steps are made, and their time is extrapolated."""

import time

import torch

from glassformer.data.tokens import Windows
from glassformer.models.language_model import LanguageModel
from glassformer.runtime import Setup
from glassformer.training.losses import next_token_loss
from glassformer.training.optim import make_optimizer
from glassformer.training.prepare import Prepared

MEASURED_STEPS = 3
PATIENCE = 2.0  # seconds after which no further step is tried


def seconds_of_training(ready: Prepared, seconds_per_step: float) -> float:
    """Of all its steps and validations: to read a token costs a third of learning from it."""
    config = ready.recipe.decided
    validations = -(-config.max_steps // config.eval_steps)
    read = validations * len(ready.validation) / 3
    return seconds_per_step * (config.max_steps + read / tokens_per_step(ready))


def tokens_per_step(ready: Prepared) -> int:
    config, context = ready.recipe.decided, ready.recipe.model["context_length"]
    batch = config.per_device_train_batch_size * config.gradient_accumulation_steps
    return int(batch * context)


def seconds_per_step(ready: Prepared, setup: Setup, model: LanguageModel) -> float:
    """The fastest of a few steps: the first ones also warm up.

    A large model is tried with few windows first, and if that takes long, with no more.
    """
    config = ready.recipe.decided
    batch, accumulated = config.per_device_train_batch_size, config.gradient_accumulation_steps
    windows = Windows(ready.training, model.context_length, seed=0)
    optimizer = make_optimizer(
        config.optimizer,
        model,
        learning_rate=1e-3,
        weight_decay=0.1,
        betas=(0.9, 0.99),
    )
    device, dtype = torch.device(setup.device), getattr(torch, setup.precision)

    def seconds(batch: int) -> tuple[float, float]:
        """To learn from so many windows, and to update the weights."""
        begin = time.perf_counter()
        ids = torch.from_numpy(windows.__getitems__(list(range(batch)))).to(device)
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            loss = next_token_loss(model.hidden(ids[:, :-1]), model.head, ids[:, 1:])
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
        learning, update = min(seconds(batch) for _ in range(MEASURED_STEPS))
    return learning * batch / tried * accumulated + update
