"""A rehearsal: what a training would be, measured on a few real steps, with nothing left behind."""

from dataclasses import asdict, dataclass
from typing import Any

from glassformer.runtime import Setup
from glassformer.training.begin import (
    build_model,
    bytes_per_parameter,
    count_parameters,
    use_machine,
    within_time_limit,
)
from glassformer.training.prepare import Prepared, rehearsed
from glassformer.training.recipe import Recipe
from glassformer.training.speed import seconds_of_training, seconds_per_step, tokens_per_step
from glassformer.wording import clock, readable_size


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
            f"{self.num_validation_tokens:,} held out; nothing is truncated",
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
    with rehearsed(recipe) as ready:
        return _plan(ready, setup)


def _plan(ready: Prepared, setup: Setup) -> Plan:
    model = build_model(ready.recipe).to(setup.device)
    seconds = seconds_per_step(ready, setup, model)
    ready = within_time_limit(ready, seconds)
    steps, tokens = ready.recipe.decided.max_steps, tokens_per_step(ready)
    parameters = count_parameters(model)
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
        state_bytes=parameters * bytes_per_parameter(ready.recipe.training),
        seconds_per_step=seconds,
        seconds=seconds_of_training(ready, seconds),
    )
