"""A rehearsal adds up what a training would be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.tasks.recipe import Recipe
from glassformer.training.plan import rehearse

Make = Callable[..., Recipe]


def test_a_rehearsal_adds_up_what_a_training_would_be(tiny: Make, tmp_path: Path) -> None:
    plan = rehearse(tiny(max_steps=1000))
    assert plan.items_per_step == 2 * 16 * 2
    assert plan.epochs == pytest.approx(1000 * 64 / plan.facts["num_tokens"])
    assert plan.seconds > 1000 * plan.seconds_per_step  # validation comes on top
    assert f"{plan.num_parameters:,} parameters, context 16" in plan.text()
