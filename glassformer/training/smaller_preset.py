"""What to do when only a few steps fit into a time limit."""

from contextlib import suppress
from typing import Any

import torch

from glassformer.errors import GlassformerError
from glassformer.models import row
from glassformer.runtime.load import NOTICEABLE, busy_cores
from glassformer.tasks.recipe import Recipe, model_config
from glassformer.tasks.task import Objective
from glassformer.training.model_card import count_parameters
from glassformer.training.time_limit import FEW, TimeLimit
from glassformer.wording import counted


def advice(objective: Objective, steps: int, limit: TimeLimit) -> str:
    """Why so few steps fit into a time limit, and what would make it more."""
    pace, cure = limit.pace, "Allow more time"
    evaluating = pace.validation + pace.ending
    reasons = {
        f"a step takes {_seconds(pace.step)}": steps * pace.step,
        f"a validation and the report take {_seconds(evaluating)}": evaluating,
        f"{_seconds(limit.before)} passed before the first step": limit.before,
    }
    why = max(reasons, key=lambda reason: reasons[reason])
    is_alone = objective.config.num_processes == 1  # the others of this training are no load
    if is_alone and (busy := busy_cores() or 0.0) >= NOTICEABLE:
        why += f", while other programs use {busy:.1f} cores"
    smaller = preset_that_fits(objective.recipe, steps)
    if smaller and why.startswith("a step"):
        preset, more = smaller
        cure += f", or pass --preset {preset}, which would take about {counted(more, 'step')}"
    return f"note: {counted(steps, 'step')} cannot teach it much: {why}. {cure}."


def _seconds(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:,.0f} s"


def preset_that_fits(recipe: Recipe, steps: int) -> tuple[str, int] | None:
    """The largest preset that makes enough steps in the same time, if there is one, and how many:
    the time of a step grows with the number of weights."""
    if recipe.start is not None:
        return None  # its model is given
    models = row(recipe.model_name)
    now = _num_parameters(recipe, recipe.model)
    chosen = models.preset(recipe.preset) if recipe.preset else {}
    sizes = {}
    for name in models.presets:
        preset = models.preset(name)
        # What only the chosen preset sets goes with it, such as the number of its key-value heads.
        left_out = chosen.keys() - preset.keys() - {"vocab_size"}
        values = {key: value for key, value in recipe.model.items() if key not in left_out}
        with suppress(GlassformerError):  # this preset does not fit what else the recipe sets
            sizes[name] = _num_parameters(recipe, values | preset)
    enough = {name: size for name, size in sizes.items() if steps * now >= FEW * size}
    if not enough:
        return None
    name = max(enough, key=lambda name: enough[name])
    return name, int(steps * now / enough[name])


def _num_parameters(recipe: Recipe, values: dict[str, Any]) -> int:
    config = model_config(values | {"name": recipe.model_name}, is_complete=True)
    with torch.device("meta"):
        return count_parameters(row(recipe.model_name).model(config))
