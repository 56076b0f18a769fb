"""A dry run: what a training would be, measured on a few real steps, with nothing left behind."""

import time
from dataclasses import dataclass, replace
from typing import Any, TextIO

import torch

from glassformer.errors import enough_memory
from glassformer.machine.facts import NOTICEABLE, busy_cores, read_load
from glassformer.machine.host import Setup
from glassformer.models import count_parameters
from glassformer.progress import ProgressLine
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import new_model
from glassformer.training.preparation import load_objective, prepare_temporarily, use_machine
from glassformer.training.run_folder import RunFolder
from glassformer.training.time_limit import (
    RESERVE,
    bytes_per_parameter,
    choose_threads,
    fitting_plan,
    measured,
    seconds_of_plan,
)
from glassformer.wording import clock, counted, readable_size


@dataclass(frozen=True)
class DryRun:
    """The plan of a run that was not started."""

    values: dict[str, Any]
    """The plan as JSON."""
    rows: dict[str, str]
    """The plan as text, by name."""
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return self.values | {"notes": self.notes}

    def text(self) -> str:
        return "\n".join([*(f"{name:10} {text}" for name, text in self.rows.items()), *self.notes])


def measure_run(recipe: Recipe, stream: TextIO, began: float) -> DryRun:
    """Prepare the data in a temporary place, try a few steps, and add up. The command began at
    `began`, by time.time."""
    reported: list[str] = []
    with (
        ProgressLine(stream, "reading the data …") as line,
        prepare_temporarily(recipe, reported.append) as objective,
    ):
        notes = tuple(line for line in reported if line.startswith(("columns", "note: ")))
        setup = use_machine(objective.recipe)
        line.show("choosing the number of threads …")
        setup = replace(setup, threads=choose_threads(objective, setup))
        torch.set_num_threads(setup.threads)
        return _measure(objective, setup, line, notes, spent=time.time() - began)


def measure_rest(run: RunFolder, recipe: Recipe, stream: TextIO) -> DryRun:
    """The rest of a run that continues with this recipe."""
    state, problems = run.last_good_state()
    first, spent = (state.step, state.standing.seconds or 0.0) if state else (0, 0.0)
    last = recipe.decided.last_step
    if run.is_finished() and last == run.recipe().decided.last_step:
        first, problems = last, [f"{run.path} is finished: there is nothing left to train"]
    notes = tuple(f"note: {problem}" for problem in problems)
    with ProgressLine(stream, "reading the data …") as line:
        objective = load_objective(recipe, run.path)
        return _measure(objective, use_machine(recipe), line, notes, spent, first)


@enough_memory("in the dry run")
def _measure(
    objective: Objective,
    setup: Setup,
    line: ProgressLine,
    notes: tuple[str, ...],
    spent: float,
    first: int = 0,
) -> DryRun:
    """`first` is the step from which a run continues; `spent` are the seconds of a time limit that
    will have passed by then."""
    line.show("trying steps, a validation and a saved state …")
    model = new_model(objective.recipe).to(setup.device)
    before = read_load()
    pace = measured(objective, setup, model)
    busy = busy_cores(since=before) or 0.0
    if busy >= NOTICEABLE and pace.step:
        notes += (f"note: the time is that of a busy machine: other programs use {busy:.1f} cores",)
    plan = objective.config.plan_at(objective.config.last_step)
    limit = objective.config.time_limit
    if limit is not None and pace.step and first < plan.max_steps:
        left = (1 - RESERVE) * limit - spent - pace.ending
        plan = fitting_plan(objective, first, left, pace)
    recipe, dataset, parameters = objective.recipe, objective.dataset, count_parameters(model)
    unit, context = dataset.unit, recipe.model.get("context_length")
    last, items = plan.max_steps, objective.items_per_step
    steps = last - first
    epochs, per_parameter = steps * items / dataset.num_items, steps * items / parameters
    size = parameters * bytes_per_parameter(recipe.training)
    seconds = seconds_of_plan(plan, first, pace)
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
    }
    config = objective.config
    if config.num_processes > 1:
        where = f" on {counted(config.num_nodes, 'machine')}" if config.num_nodes > 1 else ""
        how = f"{config.num_processes:,} processes{where}, {config.strategy}"
        rows["devices"] = f"{how}; the time does not include waiting for each other"
    rows["memory"] = f"{readable_size(size)} for weights and optimizer, plus the batch"
    rows["time"] = f"about {clock(seconds)} at {pace.step:.3g} s per step, including validation"
    return DryRun(values | dataset.preprocessing.facts() | dataset.facts(), rows, notes)
