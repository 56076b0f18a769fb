"""A rehearsal adds up what a training would be."""

import io
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from glassformer.tasks.recipe import Recipe
from glassformer.training.dry_run import measure_run

Make = Callable[..., Recipe]


def test_a_rehearsal_adds_up_what_a_training_would_be(tiny: Make, tmp_path: Path) -> None:
    plan = measure_run(tiny(max_steps=1000), io.StringIO(), time.time())
    found = plan.as_json()
    assert found["tokens_per_step"] == 2 * 16 * 2
    assert found["epochs"] == pytest.approx(1000 * 64 / found["num_tokens"])
    assert found["seconds"] > 1000 * found["seconds_per_step"]  # validation comes on top
    assert f"{found['num_parameters']:,} parameters, context 16" in plan.text()


@pytest.mark.parametrize(("cores", "is_said"), [(1.8, True), (0.1, False), (None, False)])
def test_an_estimate_on_a_busy_machine_says_so(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, cores: float | None, is_said: bool
) -> None:
    monkeypatch.setattr("glassformer.training.dry_run.busy_cores", lambda since: cores)
    text = measure_run(tiny(max_steps=20), io.StringIO(), time.time()).text()
    assert ("other programs use 1.8 cores" in text) == is_said
