"""The machine that a run uses: chosen when it begins, the same whenever it continues."""

import torch

from glassformer.runtime.facts import cpu_name
from glassformer.runtime.host import Setup, prepare, silently
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Say


def use_machine(recipe: Recipe, say: Say = silently) -> Setup:
    """Apply the recipe's device, precision and threads; what is open is chosen."""
    given = recipe.training
    return prepare(
        threads=given.num_threads,
        precision=None if given.precision == "auto" else given.precision,
        device=None if given.device == "auto" else given.device,
        notify=say,
    )


def machine_facts() -> dict[str, str]:
    """What the bits of a result depend on besides the recipe."""
    return {"torch": torch.__version__, "processor": cpu_name()}
