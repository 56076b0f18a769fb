"""A rehearsal adds up what a training would be."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.tasks.recipe import Recipe
from glassformer.training.plan import rehearse

Make = Callable[..., Recipe]


def test_a_rehearsal_adds_up_what_a_training_would_be(tiny: Make, tmp_path: Path) -> None:
    plan = rehearse(tiny(max_steps=1000), io.StringIO())
    found = plan.as_json()
    assert found["tokens_per_step"] == 2 * 16 * 2
    assert found["epochs"] == pytest.approx(1000 * 64 / found["num_tokens"])
    assert found["seconds"] > 1000 * found["seconds_per_step"]  # validation comes on top
    assert f"{found['num_parameters']:,} parameters, context 16" in plan.text()
