"""A task: everything that differs between kinds of training.

    files → Source → Dataset → batch(n) → Objective.loss(model, batch)      again and again
                                          Objective.validate, .sample       now and then
                                          Objective.examine                 at the end
    model → Predictor                                                       afterwards

A `Source` is the user's data as it was read, before the size of the model is known; a `Dataset` is
what a run keeps of it on disk; an `Objective` is what to learn from it. `Task` is the row of the
table that names them all.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

from torch import Tensor, nn

from glassformer.data.image_store import changes_in
from glassformer.evaluation.chapter import Examination
from glassformer.evaluation.result import Result, order
from glassformer.options import OptimizerKind
from glassformer.predict.predictor import Predictor
from glassformer.preprocessing import Preprocessing, load_preprocessing
from glassformer.tasks.recipe import DecidedTraining, Recipe
from glassformer.wording import counted

Say = Callable[[str], None]
Command = tuple[str | Path, ...]


def say_data(
    amount: str, split: Any, say: Say, columns: Iterable[str] = (), last: str = ""
) -> None:
    """Report what there is to learn from, what is held out, and what else to know about it."""
    say(f"data: {amount} for training; held out: {split.held_out}{last}")
    for line in (*columns, *(f"note: {note}" for note in split.notes)):
        say(line)


class Source(ABC):
    """Data as it was read, with the preprocessing that was fitted to it."""

    preprocessing: Preprocessing

    @property
    @abstractmethod
    def num_items(self) -> int:
        """The amount to learn from, in the units by which models are sized: tokens, pixels …"""

    def decided(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        """The values of a recipe that follow from the data, by section; `model` is always there."""
        return {"model": {}}

    @abstractmethod
    def write(self, folder: Path, recipe: Recipe, say: Say) -> None:
        """Write the data into `folder` as a model of this recipe reads it. The caller saves the
        preprocessing beside it."""


@dataclass(frozen=True)
class Batches:
    """The batches of a training, each a pure function of its number."""

    rows: Callable[[int], Any]
    """The numbers of the rows in a batch."""
    take: Callable[[Any], Any]
    """The rows with these numbers, as a batch."""
    per_epoch: float

    def batch(self, number: int, most: int | None = None) -> Any:
        """Batch `number`, of at most so many rows."""
        return self.take(self.rows(number)[:most])


class Dataset(ABC):
    """What a run keeps of its data: a part to learn from, a part held out. It may be memory-mapped,
    or refer to the user's files."""

    unit: str = "token"
    """What `num_items` counts."""
    training: Any
    validation: Any

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.folder = folder
        self.recipe = recipe
        self.model_config: Any = recipe.architecture()
        self.preprocessing: Any = load_preprocessing(folder)

    @property
    def num_items(self) -> int:
        return len(self.training)

    @property
    def num_validation_items(self) -> int:
        return len(self.validation)

    @property
    def items_per_row(self) -> float:
        """Mean number of items in one row of a batch."""
        return 1.0

    @property
    def default_batch_size(self) -> int:
        return 32

    @property
    def most_validations(self) -> int:
        """How many validations may choose the best model, by default."""
        return 20

    @abstractmethod
    def batches(self, batch_size: int, seed: int) -> Batches: ...

    def describe(self) -> str:
        """The data in words, on one line."""
        return f"{counted(self.num_items, self.unit)}, {self.num_validation_items:,} held out"

    def facts(self) -> dict[str, Any]:
        """The data in numbers."""
        return {
            f"num_{self.unit}s": self.num_items,
            f"num_validation_{self.unit}s": self.num_validation_items,
        }

    def changes(self) -> list[str]:
        """What changed in the user's files since the run began, in words."""
        return changes_in(self.folder)

    def test_data(self) -> dict[str, Any] | None:
        """Arguments of the predictor's `evaluate` for the run's copy of the test data, if any."""
        return None


class Objective(ABC):
    """What to learn from a dataset, and how to measure whether it was learned."""

    def __init__(self, recipe: Any, dataset: Any) -> None:
        self.recipe: Any = recipe
        self.dataset: Any = dataset

    @property
    def measure(self) -> str:
        """The score that people look at; one of `measures`."""
        return "loss"

    @property
    def decides(self) -> str:
        """The score that decides which model is the best; one of `measures`."""
        return self.measure

    def rank(self, columns: Mapping[str, float]) -> tuple[float, float]:
        """A key to sort validations by, the best first, from what metrics.csv records of them."""
        return order(self.decides, columns[f"val_{self.decides}"], columns["val_loss"])

    def initialize(self, model: Any) -> None:  # noqa: B027 - most models need nothing
        """Give a new model what follows from the data alone, before its first step."""

    @property
    @abstractmethod
    def measures(self) -> tuple[str, ...]:
        """The scores of a validation that metrics.csv records."""

    @cached_property
    def config(self) -> DecidedTraining:
        return self.recipe.decided

    def change_recipe(self, recipe: Any) -> None:
        """Go on by another plan, on the same batches."""
        self.recipe = recipe
        self.__dict__.pop("config", None)

    @cached_property
    def batches(self) -> Batches:
        return self.dataset.batches(self.config.per_device_train_batch_size, self.config.seed)

    def batch(self, number: int, most: int | None = None) -> Any:
        """Batch `number` of the training, a pure function of it; of at most so many rows."""
        return self.batches.batch(number, most)

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> Tensor: ...

    def num_targets(self, batch: Any) -> float:
        """How many targets the loss of this batch is the mean of, if that differs between batches:
        several batches of one update are weighed by it."""
        return 1.0

    @abstractmethod
    def validate(self, model: Any) -> Result: ...

    @property
    def untrained_cost(self) -> float:
        """How many times as long a validation takes before the model has learned when to stop."""
        return 1.0

    def columns(self, found: Result) -> dict[str, float]:
        """What metrics.csv records of a validation."""
        scores = found.scores()
        return {f"val_{name}": scores[name] for name in self.measures}

    @abstractmethod
    def sample(self, model: Any, step: int) -> str:
        """What the model can do at this step, for people to look at."""

    def examine(self, model: Any) -> Examination:
        """What there is to see of the best model on held-out data, within a few seconds."""
        return Examination()

    def trials(self, folder: Path | str) -> Sequence[Command]:
        """Commands with which to try the model."""
        return (("evaluate", folder, "--data", "FILE"),)

    @property
    def items_per_step(self) -> int:
        rows = self.config.per_device_train_batch_size * self.config.batches_per_update
        return round(rows * self.dataset.items_per_row)


Fit = Callable[[Objective, nn.Module, TextIO], None]


@dataclass(frozen=True)
class Habits:
    """How a task is usually trained, where the recipe leaves it open."""

    epochs: int
    fewest_steps: int = 300
    optimizer: OptimizerKind = "muon"
    muon: float = 7e-3
    """Learning rate with that optimizer, for models up to 128 wide."""
    adamw: float = 3e-3
    sgd: float = 0.1
    weight_decay: float = 0.1
    ema: float = 0.0


@dataclass(frozen=True)
class Baseline:
    """A simple method whose data has been read; `result` trains and evaluates it."""

    name: str
    digest: str
    """The checksum of everything that the result depends on."""
    result: Callable[[], Result]


def digest_of(*parts: Sequence[Any]) -> str:
    """A checksum of nested lists of texts and numbers."""
    digest = hashlib.sha256()
    for part in parts:
        for value in part:
            digest.update(json.dumps(value).encode() + b"\n")
    return digest.hexdigest()


@dataclass(frozen=True)
class Task:
    """A row of the table: everything that differs between tasks is reached through it."""

    recipe: type[Recipe]
    read: Callable[[Any, Path, Say], Source]
    """Read the data of a recipe. What needs no size of the model, such as the tokens of a long
    text, may be written into the folder at once."""
    dataset: type[Dataset]
    objective: type[Objective]
    predictor: type[Predictor]
    habits: Callable[[Recipe], Habits]
    baseline: Callable[[Any, Any, dict[str, Any]], Baseline] | None = None
    """A simple method for the same data (recipe, predictor, arguments of its `evaluate`)."""
    fit: Fit | None = None
    """A way to train that is not gradient steps: it changes the model in place, once."""
