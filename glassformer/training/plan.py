"""A rehearsal: what a training would be, measured on a few real steps, with nothing left behind."""

from dataclasses import dataclass
from typing import Any

from glassformer.runtime.host import Setup
from glassformer.tasks.recipe import DecidedTraining, Recipe
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import new_model
from glassformer.training.model_card import count_parameters
from glassformer.training.preparation import Prepared, prepared, rehearsed, use_machine
from glassformer.training.run_folder import RunFolder
from glassformer.training.timing import (
    bytes_per_parameter,
    fewer_steps,
    measured,
    seconds_of_training,
)
from glassformer.wording import clock, counted, readable_size


@dataclass(frozen=True)
class Plan:
    """What would happen."""

    values: dict[str, Any]
    """The plan as JSON values."""
    rows: dict[str, str]
    """The plan as text, one row per name."""
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return self.values | {"notes": self.notes}

    def text(self) -> str:
        return "\n".join([*(f"{name:10} {text}" for name, text in self.rows.items()), *self.notes])


def rehearse(recipe: Recipe) -> Plan:
    """Prepare the data in a temporary place, try a few steps, and add up."""
    reported: list[str] = []
    with rehearsed(recipe, reported.append) as ready:
        notes = tuple(line for line in reported if line.startswith(("columns", "note: ")))
        return _plan(ready.objective(), use_machine(ready.sized), notes, ready=ready)


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
    """`ready` is given for a run that is yet to begin: its time limit may cost it steps. `first` is
    the step from which a run continues."""
    model = new_model(objective.recipe).to(setup.device)
    pace = measured(objective, setup, model)
    limit = objective.recipe.training.time_limit
    if ready is not None and limit is not None:
        objective = fewer_steps(ready, limit, pace)
    recipe, dataset, parameters = objective.recipe, objective.dataset, count_parameters(model)
    unit, context = dataset.unit, recipe.model.get("context_length")
    last, items = objective.config.max_steps, objective.items_per_step
    steps = last - first
    epochs, per_parameter = steps * items / dataset.num_items, steps * items / parameters
    size = parameters * bytes_per_parameter(recipe.training)
    seconds = seconds_of_training(objective, pace, first)
    values = {
        "model": recipe.model_name,
        "preset": recipe.preset,
        "num_parameters": parameters,
        "context_length": context,
        "first_step": first,
        "max_steps": last,
        "epochs": epochs,
        "state_bytes": size,
        "seconds_per_step": pace.step,
        "seconds": seconds,
        f"{unit}s_per_step": items,
        f"{unit}s_per_parameter": per_parameter,
        "num_processes": objective.config.num_processes,
    }
    more = (
        f"{counted(steps, 'more step')}, from step {first:,} to {last:,},"
        if first
        else counted(steps, "step")
    )
    rows = {
        "model": f"{' '.join(filter(None, (recipe.model_name, recipe.preset)))}, "
        f"{parameters:,} parameters" + (f", context {context:,}" if context else ""),
        **dataset.preprocessing.summary(),
        "data": dataset.describe(),
        "training": f"{more} of {counted(items, unit)}: {epochs:.3g} epochs, {per_parameter:.3g} "
        f"{unit}s per parameter",
        **_division(objective.config),
        "memory": f"{readable_size(size)} for weights and optimizer, plus the batch",
        "time": f"about {clock(seconds)} at {pace.step:.3g} s per step, including validation",
    }
    return Plan(values | dataset.preprocessing.facts() | dataset.facts(), rows, notes)


def _division(config: DecidedTraining) -> dict[str, str]:
    """A row about several processes, if there are several."""
    if config.num_processes == 1:
        return {}
    where = f" on {counted(config.num_nodes, 'machine')}" if config.num_nodes > 1 else ""
    how = f"{config.num_processes:,} processes{where}, {config.strategy}"
    return {"devices": f"{how}; the time does not include waiting for each other"}
