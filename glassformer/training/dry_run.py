"""A rehearsal: what a training would be, measured on a few real steps, with nothing left behind."""

import time
from dataclasses import asdict, dataclass
from typing import Any

import torch

from glassformer.data.tokens import Windows
from glassformer.models.language_model import LanguageModel
from glassformer.runtime import Setup
from glassformer.training.begin import build_model, count_parameters, use_machine
from glassformer.training.losses import next_token_loss
from glassformer.training.optim import adamw
from glassformer.training.prepare import Prepared, rehearsed
from glassformer.training.recipe import Recipe
from glassformer.wording import clock, readable_size

MEASURED_STEPS = 3
PATIENCE = 2.0  # seconds after which no further step is tried
BYTES_PER_PARAMETER = 16  # weight, gradient and AdamW's two averages, in float32


@dataclass(frozen=True)
class Plan:
    """What would happen."""

    model: str
    preset: str | None
    num_parameters: int
    tokenizer: str
    vocab_size: int
    context_length: int
    num_tokens: int
    num_validation_tokens: int
    max_steps: int
    tokens_per_step: int
    epochs: float
    tokens_per_parameter: float
    state_bytes: int
    seconds_per_step: float
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        rows = {
            "model": f"{self.model} {self.preset or ''}, {self.num_parameters:,} parameters, "
            f"context {self.context_length:,}",
            "tokenizer": f"{self.tokenizer}, {self.vocab_size:,} tokens",
            "text": f"{self.num_tokens:,} tokens to learn from, "
            f"{self.num_validation_tokens:,} held out; none dropped or truncated",
            "training": f"{self.max_steps:,} steps of {self.tokens_per_step:,} tokens: "
            f"{self.epochs:.3g} times the text, "
            f"{self.tokens_per_parameter:.3g} tokens per parameter",
            "memory": f"{readable_size(self.state_bytes)} for weights and optimizer, and the batch",
            "time": f"about {clock(self.seconds)} at {self.seconds_per_step:.3g} s a step, "
            "validation included",
        }
        return "\n".join(f"{name:10} {value}" for name, value in rows.items())


def rehearse(recipe: Recipe) -> Plan:
    """Prepare the data in a temporary place, try a few steps, and add up."""
    setup = use_machine(recipe)
    with rehearsed(recipe, say=lambda text: None) as ready:
        return _plan(ready, setup)


def _plan(ready: Prepared, setup: Setup) -> Plan:
    model = build_model(ready.recipe).to(setup.device)
    config = ready.recipe.decided
    steps, batch = config.max_steps, config.per_device_train_batch_size
    tokens = batch * model.context_length * config.gradient_accumulation_steps
    parameters = count_parameters(model)
    seconds = _seconds_per_step(ready, setup, model, batch) * config.gradient_accumulation_steps
    return Plan(
        model=ready.recipe.model_name,
        preset=ready.recipe.preset,
        num_parameters=parameters,
        tokenizer=ready.tokenizer.kind,
        vocab_size=ready.tokenizer.vocab_size,
        context_length=model.context_length,
        num_tokens=len(ready.training),
        num_validation_tokens=len(ready.validation),
        max_steps=steps,
        tokens_per_step=tokens,
        epochs=steps * tokens / len(ready.training),
        tokens_per_parameter=steps * tokens / parameters,
        state_bytes=parameters * BYTES_PER_PARAMETER,
        seconds_per_step=seconds,
        seconds=seconds * (steps + _validation(ready) / tokens),
    )


def _validation(ready: Prepared) -> float:
    """All that will be read to validate, in tokens learned from: reading one costs a third."""
    config = ready.recipe.decided
    return -(-config.max_steps // config.eval_steps) * len(ready.validation) / 3


def _seconds_per_step(ready: Prepared, setup: Setup, model: LanguageModel, batch: int) -> float:
    """The fastest of a few steps: the first ones also warm up.

    A large model is tried with one window first, and if that takes long, with no more.
    """
    windows = Windows(ready.training, model.context_length, seed=0)
    optimizer = adamw(model, learning_rate=1e-3, weight_decay=0.1, betas=(0.9, 0.99))
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

    first, update = seconds(1)
    if first * batch > PATIENCE:
        return first * batch + update
    return min(sum(seconds(batch)) for _ in range(MEASURED_STEPS))
