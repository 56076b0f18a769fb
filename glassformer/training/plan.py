"""A rehearsal: what a training would be, measured on a few real steps, with nothing left behind."""

import time
from dataclasses import dataclass, replace
from typing import Any, TextIO

import torch

from glassformer.runtime.host import Setup
from glassformer.runtime.load import NOTICEABLE, busy_cores, read_load
from glassformer.tasks.recipe import DecidedTraining, Recipe
from glassformer.tasks.task import Objective
from glassformer.training.finetuning import new_model
from glassformer.training.model_card import count_parameters
from glassformer.training.preparation import prepared, rehearsed, use_machine
from glassformer.training.progress import Waiting
from glassformer.training.run_folder import RunFolder
from glassformer.training.time_limit import RESERVE, fitting_plan, seconds_of_plan
from glassformer.training.timing import bytes_per_parameter, choose_threads, measured
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


def rehearse(recipe: Recipe, stream: TextIO, began: float) -> Plan:
    """Prepare the data in a temporary place, try a few steps, and add up. The command began at
    `began`, by time.time."""
    reported: list[str] = []
    with (
        Waiting(stream, "reading the data") as wait,
        rehearsed(recipe, reported.append) as ready,
    ):
        notes = tuple(line for line in reported if line.startswith(("columns", "note: ")))
        objective, setup = ready.objective(), use_machine(ready.sized)
        wait.now("choosing the number of threads")
        setup = replace(setup, threads=choose_threads(objective, setup))
        torch.set_num_threads(setup.threads)
        return _plan(objective, setup, wait, notes, spent=time.time() - began)


def rehearse_rest(run: RunFolder, recipe: Recipe, stream: TextIO) -> Plan:
    """The rest of a run that continues with this recipe."""
    first, problems = run.last_good_step()
    last = recipe.decided.last_step
    if run.is_finished() and last == run.recipe().decided.last_step:
        first, problems = last, [f"{run.path} is finished: there is nothing left to train"]
    notes = tuple(f"note: {each}" for each in problems)
    with Waiting(stream, "reading the data") as wait:
        spent = (run.standing(first).seconds if first else None) or 0.0
        return _plan(prepared(recipe, run.path), use_machine(recipe), wait, notes, spent, first)


def _plan(
    objective: Objective,
    setup: Setup,
    wait: Waiting,
    notes: tuple[str, ...],
    spent: float,
    first: int = 0,
) -> Plan:
    """`first` is the step from which a run continues; `spent` are the seconds of a time limit that
    will have passed by then."""
    wait.now("trying steps, a validation and a saved state")
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
