"""The contract of a task: everything that differs between kinds of training, in five classes.

    files → Source → Dataset → batch(n) → Objective.loss(model, batch)      again and again
                                          Objective.validate, .sample       now and then
                                          Objective.examine                 at the end
    model → Predictor                                                       afterwards

A `Source` is the user's data as it was read, before the size of the model is known; a `Dataset` is
what a run keeps of it on disk; an `Objective` is what to learn from it; a `Predictor` is the model
in use. A `Task` names them all: it is a row of the table in `tasks/__init__.py`.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TextIO

from torch import Tensor, nn

from glassformer.config import Config, parse
from glassformer.data.image_store import changes_in
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.chapters import Examination
from glassformer.nn.int8 import is_quantized
from glassformer.options import OptimizerKind
from glassformer.preprocessing import SETTINGS, Preprocessing, load_preprocessing
from glassformer.progress import Notify
from glassformer.tasks.evaluating import Result, order
from glassformer.tasks.recipe import DecidedTraining, Recipe
from glassformer.wording import counted, joined

Command = tuple[str | Path, ...]


# --- the data: as it was read, and as a run keeps it ---


class Source(ABC):
    """Data as it was read, with the preprocessing that was fitted to it."""

    preprocessing: Preprocessing

    @property
    @abstractmethod
    def num_items(self) -> int:
        """The amount to learn from, in the units by which models are sized: tokens, pixels …"""

    def choices(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        """The values of a recipe that follow from the data, by section; `model` is always there."""
        return {"model": {}}

    @abstractmethod
    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        """Write the data into `folder` as a model of this recipe reads it. The caller saves the
        preprocessing beside it."""


def report_data(
    amount: str, split: Any, notify: Notify, columns: Iterable[str] = (), last: str = ""
) -> None:
    """Report what there is to learn from, what is held out, and what else to know about it."""
    notify(f"data: {amount} for training; held out: {split.held_out}{last}")
    for line in (*columns, *(f"note: {note}" for note in split.notes)):
        notify(line)


ALWAYS_ALLOWED = 1024  # rows of a batch: more than the data has only costs memory


@dataclass(frozen=True)
class Batches:
    """The batches of a training, each a pure function of its number: random numbers, also those of
    augmentation, follow from it and the seed, so a run is resumed exactly."""

    rows: Callable[[int], Any]
    """The numbers of the rows in a batch."""
    take: Callable[[Any], Any]
    """The rows with these numbers, as a batch."""
    per_epoch: float

    @classmethod
    def sliced(cls, take: Callable[[Any], Any], batch_size: int, per_epoch: float) -> "Batches":
        """Batches of rows that are all of one size and numbered from the start of training."""
        num_rows = round(per_epoch * batch_size)
        if batch_size > (most := max(num_rows, ALWAYS_ALLOWED)):
            raise UsageError(
                f"training.per_device_train_batch_size is {batch_size:,}, but the training data "
                f"makes only {counted(num_rows, 'row')}. Pass {most:,} or less."
            )
        return cls(lambda n: range(n * batch_size, (n + 1) * batch_size), take, per_epoch)

    def batch(self, number: int, most: int | None = None) -> Any:
        """Batch `number`, of at most so many rows."""
        return self.take(self.rows(number)[:most])


class Dataset(ABC):
    """The data of a run, with a training part and a held-out part. It may be memory-mapped, or
    refer to the user's files."""

    unit: str = "token"
    """The unit of `num_items`."""
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


# --- what to learn ---


class Objective(ABC):
    """What to learn from a dataset, and how to measure whether it was learned."""

    def __init__(self, recipe: Any, dataset: Any) -> None:
        self.recipe: Any = recipe
        self.dataset: Any = dataset

    @property
    def measure(self) -> str:
        """The score that progress and reports show; one of `measures`."""
        return "loss"

    @property
    def decides(self) -> str:
        """The score that selects the best model; one of `measures`."""
        return self.measure

    def rank(self, columns: Mapping[str, float]) -> tuple[float, float]:
        """A sort key of a validation, from its columns in metrics.csv; the best comes first."""
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
        """Continue with another plan, on the same batches."""
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
        """The number of targets that the loss is the mean of, if it differs between batches: the
        weight of a batch among those of one update."""
        return 1.0

    @abstractmethod
    def validate(self, model: Any) -> Result:
        """Evaluate the model on held-out data. `evaluate`, `compare` and the final test compute
        their scores by the same function, and return the same kind of result."""

    @property
    def untrained_cost(self) -> float:
        """How many times as long a validation takes before the model has learned when to stop."""
        return 1.0

    def columns(self, result: Result) -> dict[str, float]:
        """The columns of a validation in metrics.csv."""
        scores = result.scores()
        return {f"val_{name}": scores[name] for name in self.measures}

    @abstractmethod
    def sample(self, model: Any, step: int) -> str:
        """A sample of the output of the model at this step, for the log."""

    def examine(self, model: Any) -> Examination:
        """Chapters of the report on the best model, computed within a few seconds on held-out data:
        plain data, and the name of the picture that draws it."""
        return Examination()

    def trials(self, folder: Path | str) -> Sequence[Command]:
        """Commands to try the model with."""
        return (("evaluate", folder, "--data", "FILE"),)

    @property
    def items_per_step(self) -> int:
        rows = self.config.per_device_train_batch_size * self.config.batches_per_update
        return round(rows * self.dataset.items_per_row)


# --- the trained model in use ---

Texts = list[str] | tuple[str, ...]
"""Several inputs of a verb, which then returns a list."""


@dataclass(frozen=True)
class View:
    """A picture of what a model does with an input, for `inspect`. Views belong to predictors, so
    neither `inspect` nor what draws a result knows a task."""

    method: str
    """The name of a method of the predictor. It takes the input; the options of the view are its
    keyword arguments, and the command line accepts exactly those. What it returns has `as_json`,
    `text` and `notes`, and `inspect/views.py` draws it."""
    about: str
    """A short description of the view."""
    reads_file: bool = False
    """Whether the input is the name of a file, such as an image, and not a text."""
    suits: Callable[[Any], bool] = lambda model: True
    """Whether a model can show the view."""


class Predictor(ABC):
    """A model with the verbs of its task, each of them a method."""

    verbs: ClassVar[tuple[str, ...]] = ("evaluate",)
    """The names of the commands that work with it."""
    draws: ClassVar[bool] = False
    """Whether it generates images, which are drawn into a file."""
    views: ClassVar[Mapping[str, View]] = {}
    """The views of `inspect`, by name."""
    usual_view: ClassVar[str | None] = None
    """The name of the default view."""
    preprocessing_class: ClassVar[type[Preprocessing]] = Preprocessing
    settings_class: ClassVar[type[Config] | None] = None
    """The settings of generation, if it generates: the keys of generation_config.json."""
    folder: Path | None = None
    """The folder that the model was loaded from."""
    model: Any
    preprocessing: Preprocessing

    def __init__(
        self, model: Any, preprocessing: Preprocessing, defaults: dict[str, Any] | None = None
    ) -> None:
        if not isinstance(preprocessing, self.preprocessing_class):
            raise GlassformerError(
                f'{SETTINGS} has kind "{preprocessing.kind}", which does not belong to this model. '
                "Copy the whole model folder."
            )
        self.model = model.eval()
        self.preprocessing = preprocessing
        self.defaults = defaults or {}

    @abstractmethod
    def evaluate(self, paths: str | Sequence[str]) -> Result:
        """Evaluate the model on files. The options of a task are further keyword arguments; the
        command line offers exactly those."""

    @property
    def is_quantized(self) -> bool:
        """Whether its model has 8-bit weights."""
        return is_quantized(self.model)

    @property
    def usable_views(self) -> dict[str, View]:
        """The views that its model can show."""
        return {name: view for name, view in self.views.items() if view.suits(self.model)}

    def view(self, name: str | None, model: Any) -> View:
        """The view of that name; `model` is what the user calls this model."""
        wanted, views = name or self.usual_view, self.usable_views
        if wanted is not None and wanted in views:
            return views[wanted]
        if not views:
            verbs = joined(verb for verb in self.verbs if verb != "inspect")
            raise UsageError(f"{model} has nothing to inspect. This model supports {verbs}.")
        problem = "no view was chosen" if name is None else f'{model} has no view "{name}"'
        shown = "; ".join(f"{other} ({view.about})" for other, view in views.items())
        raise UsageError(f"{problem}. Pass --view with one of: {shown}.")

    def exceeding(self, count: int, total: int, what: str, consequence: str) -> str:
        """A note on inputs that are longer than the model's context."""
        return (
            f"{count:,} of {counted(total, what)} exceed the model's context of "
            f"{self.model.context_length:,}{consequence}"
        )

    def check_defaults(self, where: str) -> None:
        """Raise unless the defaults of generation are valid."""
        if self.settings_class is not None:
            parse(self.settings_class, self.defaults, where=where)

    def parse_settings(self, changes: dict[str, Any]) -> Any:
        """The settings of one call: its own, else the model's defaults."""
        if self.settings_class is None:
            raise TypeError(f"{type(self).__name__} does not generate")
        values = self.defaults | changes
        return parse(self.settings_class, values, "the settings", error=UsageError)


def merged_settings(settings: Config | None, changes: dict[str, Any]) -> dict[str, Any]:
    """The settings that are passed to a call: as an object, one by one, or both."""
    return ({} if settings is None else settings.model_dump(exclude_unset=True)) | changes


def as_list(paths: str | Sequence[str]) -> list[str]:
    return [paths] if isinstance(paths, str) else list(paths)


# --- the row of the table ---


@dataclass(frozen=True)
class Defaults:
    """The defaults of a task for the keys that a recipe leaves open."""

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


Fit = Callable[[Objective, nn.Module, TextIO], None]


@dataclass(frozen=True)
class Task:
    """A row of the table: everything that differs between tasks is reached through it."""

    recipe: type[Recipe]
    read: Callable[[Any, Path, Notify], Source]
    """Read the data of a recipe. What needs no size of the model, such as the tokens of a long
    text, may be written into the folder at once."""
    dataset: type[Dataset]
    objective: type[Objective]
    predictor: type[Predictor]
    defaults: Callable[[Recipe], Defaults]
    baseline: Callable[[Any, Any, dict[str, Any]], Baseline] | None = None
    """A simple method for the same data (recipe, predictor, arguments of its `evaluate`)."""
    fit: Fit | None = None
    """A way to train that is not gradient steps: it changes the model in place, once."""
