"""A rehearsal: what a training would be, measured on a few real steps, with nothing left behind."""

from dataclasses import asdict, dataclass
from typing import Any

from glassformer.runtime.host import Setup
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import new_model
from glassformer.training.machine import use_machine
from glassformer.training.model_card import count_parameters
from glassformer.training.preparation import Prepared, prepared, rehearsed
from glassformer.training.run_folder import RunFolder
from glassformer.training.time_limit import fewer_steps
from glassformer.training.timing import (
    bytes_per_parameter,
    seconds_of_training,
    seconds_per_step,
)
from glassformer.wording import clock, readable_size


@dataclass(frozen=True)
class Plan:
    """What would happen."""

    model: str
    preset: str | None
    num_parameters: int
    context_length: int | None
    inputs: dict[str, str]
    """The preprocessing, for people."""
    data: str
    facts: dict[str, Any]
    """Preprocessing and data in numbers."""
    unit: str
    first_step: int
    """The step from which a run continues; 0: it begins."""
    max_steps: int
    items_per_step: int
    epochs: float
    items_per_parameter: float
    state_bytes: int
    seconds_per_step: float
    seconds: float
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        for name in ("inputs", "data", "unit", "facts"):
            del values[name]
        for name in ("items_per_step", "items_per_parameter"):
            values[name.replace("item", self.unit)] = values.pop(name)
        return values | self.facts

    def text(self) -> str:
        rows = {
            "model": f"{' '.join(filter(None, (self.model, self.preset)))}, "
            f"{self.num_parameters:,} parameters"
            + (f", context {self.context_length:,}" if self.context_length else ""),
            **self.inputs,
            "data": self.data,
            "training": f"{self._steps} of {self.items_per_step:,} {self.unit}s: "
            f"{self.epochs:.3g} epochs, "
            f"{self.items_per_parameter:.3g} {self.unit}s per parameter",
            "memory": f"{readable_size(self.state_bytes)} for weights and optimizer, plus the "
            "batch",
            "time": f"about {clock(self.seconds)} at {self.seconds_per_step:.3g} s per step, "
            "including validation",
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
    reported: list[str] = []
    with rehearsed(recipe, reported.append) as ready:
        notes = tuple(line for line in reported if line.startswith(("columns", "note: ")))
        return _plan(ready.objective(), setup, notes, ready=ready)


def rehearse_rest(run: RunFolder, recipe: Recipe) -> Plan:
    """The rest of a run that continues with this recipe."""
    first, problems = run.last_good_step()
    last = recipe.decided.max_steps
    if run.is_finished() and last == run.recipe().decided.max_steps:
        first, problems = last, [f"{run.path} is finished: there is nothing left to train"]
    notes = tuple(f"note: {each}" for each in problems)
    return _plan(prepared(recipe, run.path), use_machine(recipe), notes, first)


def _plan(
    objective: Objective,
    setup: Setup,
    notes: tuple[str, ...],
    first: int = 0,
    ready: Prepared | None = None,
) -> Plan:
    """`ready` is given for a run that is yet to begin: its time limit may cost it steps."""
    model = new_model(objective.recipe).to(setup.device)
    seconds = seconds_per_step(objective, setup, model)
    limit = objective.recipe.training.time_limit
    if ready is not None and limit is not None:
        objective = fewer_steps(ready, limit, seconds)
    recipe, dataset = objective.recipe, objective.dataset
    steps, items = objective.config.max_steps - first, objective.items_per_step
    parameters = count_parameters(model)
    return Plan(
        model=recipe.model_name,
        preset=recipe.preset,
        num_parameters=parameters,
        context_length=recipe.model.get("context_length"),
        inputs=dataset.preprocessing.summary(),
        data=dataset.describe(),
        facts=dataset.preprocessing.facts() | dataset.facts(),
        unit=dataset.unit,
        first_step=first,
        max_steps=first + steps,
        items_per_step=items,
        epochs=steps * items / dataset.num_items,
        items_per_parameter=steps * items / parameters,
        state_bytes=parameters * bytes_per_parameter(recipe.training),
        seconds_per_step=seconds,
        seconds=seconds_of_training(objective, seconds, first),
        notes=notes,
    )
