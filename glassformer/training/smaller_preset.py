"""What to do when only a few steps fit into a time limit."""

from typing import Any

import torch

from glassformer.models import row
from glassformer.runtime.load import NOTICEABLE, busy_cores
from glassformer.tasks.recipe import Recipe, model_config
from glassformer.tasks.task import Objective
from glassformer.training.model_card import count_parameters
from glassformer.training.time_limit import FEW
from glassformer.wording import counted


def advice(objective: Objective, steps: int, seconds: float) -> str:
    """Why so few steps fit, if each takes so many seconds, and what would make it more."""
    why = f"a step takes {seconds:.2g} s"
    if (busy := busy_cores() or 0.0) >= NOTICEABLE:
        why += f" while other programs use {busy:.1f} cores"
    cure = "Allow more time"
    if smaller := _smaller_preset(objective.recipe, steps):
        preset, more = smaller
        cure += f", or pass --preset {preset}, which would take about {counted(more, 'step')}"
    return f"note: {counted(steps, 'step')} cannot teach it much: {why}. {cure}."


def _smaller_preset(recipe: Recipe, steps: int) -> tuple[str, int] | None:
    """The largest preset that makes enough steps in the same time, if there is one, and how many:
    the time of a step grows with the number of weights."""
    if recipe.start is not None:
        return None  # its model is given
    known = row(recipe.model_name)
    now = _num_parameters(recipe, recipe.model)
    sizes = {
        name: _num_parameters(recipe, recipe.model | known.preset(name)) for name in known.presets
    }
    enough = {name: size for name, size in sizes.items() if steps * now >= FEW * size}
    if not enough:
        return None
    name = max(enough, key=lambda name: enough[name])
    return name, int(steps * now / enough[name])


def _num_parameters(recipe: Recipe, values: dict[str, Any]) -> int:
    config = model_config(values | {"name": recipe.model_name}, is_complete=True)
    with torch.device("meta"):
        return count_parameters(row(recipe.model_name).model(config))
