"""Pictures of where an image classifier looked."""

import re
from pathlib import Path

import numpy as np
import pytest

from glassformer.inspect.alignment import ImageAttention
from glassformer.inspect.views import draw


@pytest.mark.parametrize("span", [0.9, 0.03, 0.004, 1e-5])
def test_the_marks_of_the_scale_are_different_numbers(tmp_path: Path, span: float) -> None:
    weights = 0.01 + np.linspace(0, span, 16).reshape(4, 4)
    pixels = np.full((8, 8, 3), 90, np.uint8)
    found = ImageAttention(
        view="rollout", image="a.png", pixels=pixels, weights=weights, label="cat", score=1.0
    )
    draw(found, tmp_path / "a.svg")
    marks = re.findall(r">([\d.]+%)</text>", (tmp_path / "a.svg").read_text())
    assert len(marks) > 2
    assert len(set(marks)) == len(marks)
