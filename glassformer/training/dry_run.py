"""A rehearsal: what a training would be, measured on a few real steps, with nothing left behind."""

from dataclasses import asdict, dataclass
from typing import Any

from glassformer.runtime import Setup
from glassformer.training.begin import (
    bytes_per_parameter,
    use_machine,
    within_time_limit,
)
from glassformer.training.card import count_parameters
from glassformer.training.prepare import prepared, rehearsed
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder
from glassformer.training.speed import seconds_of_training, seconds_per_step
from glassformer.training.tasks import Task
from glassformer.wording import clock, readable_size


@dataclass(frozen=True)
class Plan:
    """What would happen."""

    model: str
    preset: str | None
    num_parameters: int
    tokenizer: str | None
    vocab_size: int | None
    context_length: int | None
    amount: str
    facts: dict[str, Any]
    first_step: int
    """The step from which a run goes on; 0: it begins."""
    max_steps: int
    tokens_per_step: int
    epochs: float
    tokens_per_parameter: float
    state_bytes: int
    seconds_per_step: float
    seconds: float
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        facts = values.pop("facts")
        del values["amount"]
        return values | facts

    def text(self) -> str:
        rows = {
            "model": f"{' '.join(filter(None, (self.model, self.preset)))}, "
            f"{self.num_parameters:,} parameters"
            + (f", context {self.context_length:,}" if self.context_length else ""),
            "tokenizer": f"{self.tokenizer}, {self.vocab_size:,} tokens"
            if self.vocab_size
            else "none",
            "data": self.amount,
            "training": f"{self._steps} of {self.tokens_per_step:,} tokens: "
            f"{self.epochs:.3g} times the data, "
            f"{self.tokens_per_parameter:.3g} tokens per parameter",
            "memory": f"{readable_size(self.state_bytes)} for weights and optimizer, and the batch",
            "time": f"about {clock(self.seconds)} at {self.seconds_per_step:.3g} s a step, "
            "validation included",
        }
        lines = [f"{name:10} {value}" for name, value in rows.items()]
        return "\n".join([*lines, *self.notes])

    @property
    def _steps(self) -> str:
        if not self.first_step:
            return f"{self.max_steps:,} steps"
        rest = self.max_steps - self.first_step
        return f"{rest:,} more steps, from step {self.first_step:,} to {self.max_steps:,},"


def rehearse(recipe: Recipe) -> Plan:
    """Prepare the data in a temporary place, try a few steps, and add up."""
    setup = use_machine(recipe)
    said: list[str] = []
    with rehearsed(recipe, said.append) as ready:
        notes = tuple(line for line in said if line.startswith(("columns", "note: ")))
        return _plan(ready, setup, notes)


def rehearse_rest(run: RunFolder, recipe: Recipe) -> Plan:
    """The same of a run that goes on with this recipe: what is left of it."""
    first, problems = run.last_good_step()
    last = recipe.decided.max_steps
    if run.is_finished() and last == run.recipe().decided.max_steps:
        first, problems = last, [f"{run.path} is finished: there is nothing left to train"]
    notes = tuple(f"note: {each}" for each in problems)
    return _plan(prepared(recipe, run.path), use_machine(recipe), notes, first)


def _plan(ready: Task, setup: Setup, notes: tuple[str, ...], first: int | None = None) -> Plan:
    model = ready.build().to(setup.device)
    seconds = seconds_per_step(ready, setup, model)
    if first is None:  # a run that goes on keeps to its plan
        ready = within_time_limit(ready, seconds)
    begin = first or 0
    steps, tokens = ready.recipe.decided.max_steps - begin, ready.tokens_per_step
    parameters = count_parameters(model)
    return Plan(
        model=ready.recipe.model_name,
        preset=ready.recipe.preset,
        num_parameters=parameters,
        tokenizer=ready.tokenizer.kind if ready.tokenizer else None,
        vocab_size=ready.tokenizer.vocab_size if ready.tokenizer else None,
        context_length=ready.recipe.model.get("context_length"),
        amount=ready.amount(),
        facts=ready.facts(),
        first_step=begin,
        max_steps=begin + steps,
        tokens_per_step=tokens,
        epochs=steps * tokens / ready.num_tokens,
        tokens_per_parameter=steps * tokens / parameters,
        state_bytes=parameters * bytes_per_parameter(ready.recipe.training),
        seconds_per_step=seconds,
        seconds=seconds_of_training(ready, seconds, begin),
        notes=notes,
    )
