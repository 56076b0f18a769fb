"""A task and a model of which the package knows nothing: points in, a straight line out.

Everything that a task needs is here, and one row in each table at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import Config
from glassformer.data.documents import CorpusConfig
from glassformer.models import MODELS, ModelRow
from glassformer.preprocessing import Preprocessing
from glassformer.progress import Notify
from glassformer.tasks import TASKS
from glassformer.tasks.evaluating import Result
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.rows import example_batches
from glassformer.tasks.task import (
    Batches,
    Dataset,
    Defaults,
    Objective,
    Predictor,
    Source,
    Task,
    as_list,
)


class LineConfig(Config):
    bias: bool = True


class Line(nn.Module):
    def __init__(self, config: LineConfig) -> None:
        super().__init__()
        self.config = config
        self.linear = nn.Linear(1, 1, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class LineRecipe(Recipe):
    data: CorpusConfig


def read_points(paths: Sequence[str]) -> Any:
    return np.concatenate([np.loadtxt(path, np.float32, delimiter=",") for path in paths])


@dataclass(frozen=True)
class PointSource(Source):
    points: Any
    preprocessing = Preprocessing()

    @property
    def num_items(self) -> int:
        return len(self.points)

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        save_file({"points": self.points}, folder / "points.safetensors")


class Points(Dataset):
    unit = "point"

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        points = torch.from_numpy(load_file(folder / "points.safetensors")["points"])
        self.training, self.validation = points[:-10], points[-10:]

    def batches(self, batch_size: int, seed: int) -> Batches:
        return example_batches(self.num_items, batch_size, seed, self.training.__getitem__)


@dataclass(frozen=True)
class Fit(Result):
    loss: float

    def scores(self) -> dict[str, float]:
        return {"loss": self.loss}

    def parts(self) -> list[str]:
        return [f"mean squared error {self.loss:.4f}"]


class LinePredictor(Predictor):
    def evaluate(self, paths: str | Sequence[str]) -> Fit:
        return squared_error(self.model, torch.from_numpy(read_points(as_list(paths))))


@torch.no_grad()
def squared_error(model: Line, points: Tensor) -> Fit:
    return Fit(F.mse_loss(model(points[:, :1]), points[:, 1:]).item())


class FitLine(Objective):
    measures = ("loss",)

    def loss(self, model: Line, batch: Tensor) -> Tensor:
        return F.mse_loss(model(batch[:, :1]), batch[:, 1:])

    def validate(self, model: Line) -> Fit:
        return squared_error(model, self.dataset.validation)

    def sample(self, model: Line, step: int) -> str:
        return f"slope {model.linear.weight.item():.2f}"


LINE = Task(
    recipe=LineRecipe,
    read=lambda recipe, folder, notify: PointSource(read_points(recipe.data.paths)),
    dataset=Points,
    objective=FitLine,
    predictor=LinePredictor,
    defaults=lambda recipe: Defaults(epochs=20, adamw=0.1, muon=0.1),
)


ROW = ModelRow(
    "fit-line",
    "a straight line",
    lambda: (LineConfig, Line),
    presets={"plain": {}},
    sizes=((0, "plain"),),
)


def add_rows() -> None:
    TASKS["fit-line"], MODELS["line"] = LINE, ROW
