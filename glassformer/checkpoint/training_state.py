"""What a training leaves to continue from, and to look at: its states, and the curves beside them.

A state is any nesting of dicts, lists, numbers and tensors as safetensors and JSON. `resume` in
`training/run.py` continues from it.

Tensors go to `state.safetensors`, each only once, and to further files when that one is full;
everything else goes to `state.json`, which names tensors by their number. Tensors that several
processes have sharded are put together one after the other, so that no process ever needs the
memory for all of them.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor
from torch.optim import SGD, Optimizer

from glassformer.config import Values, reason
from glassformer.errors import GlassformerError
from glassformer.files import check_folder, new_folder
from glassformer.machine.facts import cpu_name
from glassformer.machine.processes import is_sharded, whole

TENSORS = "state.safetensors"
VALUES = "state.json"
LARGEST = 2**31  # bytes of tensors in a file, unless one alone is larger


class _Tensors:
    """Numbers tensors, and writes them into a folder, if there is one."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._numbers: dict[Any, int] = {}
        self._waiting: dict[str, Tensor] = {}
        self._files = 0

    def number(self, tensor: Tensor) -> int:
        # Tied weights are one piece of memory: stored once, and shared again after loading. The
        # part of a sharded tensor may be empty, which says nothing: it is known by itself.
        memory: Any = id(tensor)
        if not is_sharded(tensor):
            memory = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if memory not in self._numbers:
            self._numbers[memory] = len(self._numbers)
            content = whole(tensor.detach())
            if self.folder is not None:
                self._keep(str(self._numbers[memory]), content.cpu().contiguous())
        return self._numbers[memory]

    def _keep(self, name: str, content: Tensor) -> None:
        size = sum(tensor.nbytes for tensor in self._waiting.values())
        if self._waiting and size + content.nbytes > LARGEST:
            self.write()
        self._waiting[name] = content

    def write(self) -> None:
        """What has not been written yet."""
        if self.folder is not None and (self._waiting or not self._files):
            self._files += 1
            name = TENSORS if self._files == 1 else f"state-{self._files}.safetensors"
            (self.folder / name).write_bytes(save(self._waiting))
            self._waiting = {}


def save_state(folder: Path, state: dict[str, Any], is_written: bool = True) -> None:
    """Write `state` to `folder`, whole or not at all. Of several processes that share a sharded
    state, all have to call this, and one writes."""
    if not is_written:
        _pack(state, _Tensors(None))
        return
    with new_folder(folder) as partial:
        tensors = _Tensors(partial)
        values = _pack(state, tensors)
        tensors.write()
        (partial / VALUES).write_text(json.dumps(values))


def load_state(folder: Path) -> dict[str, Any]:
    """The state as it was saved, bit for bit; an error if anything in the folder has changed."""
    check_folder(folder, cure=f"Delete {folder} to continue from an earlier checkpoint.")
    return _load(folder, with_tensors=True)


def load_values(folder: Path) -> dict[str, Any]:
    """A state that is known to be undamaged, with tensors that have a shape and no content."""
    return _load(folder, with_tensors=False)


def _load(folder: Path, with_tensors: bool) -> dict[str, Any]:
    try:
        files = [folder / TENSORS, *sorted(folder.glob("state-*.safetensors"))]
        stored = (item for file in files for item in load_file(file).items())
        # Copies: on Windows, a mapped file cannot be deleted, as states are.
        tensors = {k: tensor.clone() if with_tensors else tensor.to("meta") for k, tensor in stored}
        state = _unpack(json.loads((folder / VALUES).read_text()), tensors)
        if isinstance(state, dict):
            return state
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError):
        pass
    raise GlassformerError(f"{folder} is damaged: it does not contain the state of a training.")


def _pack(value: Any, tensors: _Tensors) -> Any:
    """JSON for `value`. Types that JSON does not have become objects of one key."""
    match value:
        case Tensor():
            return {"tensor": tensors.number(value)}
        case dict():
            return {"dict": [[_pack(k, tensors), _pack(v, tensors)] for k, v in value.items()]}
        case tuple():
            return {"tuple": [_pack(item, tensors) for item in value]}
        case list():
            return [_pack(item, tensors) for item in value]
        case None | bool() | int() | float() | str():
            return value
    raise TypeError(f"a {type(value).__name__} cannot be part of a training state")


def _unpack(value: Any, tensors: dict[str, Tensor]) -> Any:
    match value:
        case {"tensor": number}:
            return tensors[str(number)]
        case {"dict": items}:
            return {_unpack(k, tensors): _unpack(v, tensors) for k, v in items}
        case {"tuple": items}:
            return tuple(_unpack(item, tensors) for item in items)
        case list():
            return [_unpack(item, tensors) for item in value]
    return value


# --- metrics.csv and samples.txt ---

METRICS, SAMPLES = "metrics.csv", "samples.txt"  # in a run's folder
HEADING = re.compile(r"--- step (\d+) ---\n")
STEP = re.compile(r"[0-9]{1,18}")
NUMBER = re.compile(r"(-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|-?inf|nan)?")  # or nothing


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The complete rows: a kill may have cut the last one short."""
    return rows_of(path)[0]


def rows_of(path: Path, expected: Sequence[str] = ()) -> tuple[list[dict[str, str]], int]:
    """The complete rows, and the number of lines that are damaged; `expected` are the columns that
    may have a place in a row."""
    if not path.is_file():
        return [], 0
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header, *lines = [line[:-1] for line in file if line.endswith("\n")] or [""]
    columns = header.split(",")
    is_known = "step" in columns and set(columns) <= set(expected or columns)
    cells = [line.split(",") for line in lines]
    whole = [row for row in cells if is_known and len(row) == len(columns)]
    rows = [dict(zip(columns, row, strict=True)) for row in whole]
    rows = [row for row in rows if all(NUMBER.fullmatch(value) for value in row.values())]
    rows = [row for row in rows if STEP.fullmatch(row["step"])]
    return rows, len(lines) - len(rows)


def read_samples(folder: Path) -> list[tuple[int, str]]:
    """The samples of a run: (step, text)."""
    path = folder / SAMPLES
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        _, *parts = HEADING.split(file.read())
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [(int(step), text.removesuffix("\n")) for step, text in pairs]


def curves_of(rows: Sequence[dict[str, str]]) -> dict[str, list[float | None]]:
    """The rows as columns of numbers; columns without any are left out."""
    names = list(rows[0]) if rows else []
    curves = {name: [_number(row[name]) for row in rows] for name in names}
    return {name: values for name, values in curves.items() if any(v is not None for v in values)}


def _number(text: str) -> float | None:
    """A value of metrics.csv; None for a gap, and for what no chart can show."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# --- what a saved state contains ---
# It is checked as a whole before any of it is used. Its checksums show that its bytes are those
# that were written. They do not show that it is complete: it may have been edited, or written by
# another version. It has the recipe and the losses of its interval, so that an edited recipe is
# noticed on resume and `verify` can name the first step that differs; its keys are no names of
# classes.

VERSION = 2
OLD_KEY = "pytorch-lightning_version"  # in states of version 1, which had no number


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)


class Standing(_Part):
    """What a run knows about itself besides weights and optimizer: saved with every state."""

    recipe: Values
    """The keys on which the model depends."""
    losses: list[float]
    """Since the last line of metrics.csv."""
    trace: list[float]
    """The loss of each step since a state was due."""
    machine: dict[str, str]
    """What the bits of a result depend on besides the recipe."""
    stale: NonNegativeInt
    """Validations since the best one."""
    val: float | None
    best: dict[str, float] | None
    """The scores of the best model, as metrics.csv names them."""
    best_step: int | None
    notes: list[str]
    """What to know about the best model, besides its scores."""
    seconds: float | None
    """Seconds of the time limit that have passed; None if there is no limit."""

    @classmethod
    def at_the_start(cls) -> Self:
        """The standing of a run that has not made a step. The fields themselves have no defaults: a
        state without one of them is damaged."""
        return cls(
            recipe={},
            losses=[],
            trace=[],
            machine={"torch": torch.__version__, "processor": cpu_name()},
            stale=0,
            val=None,
            best=None,
            best_step=None,
            notes=[],
            seconds=None,
        )


class _Group(_Part):
    params: list[NonNegativeInt]


class _Momentum(_Part):
    """What Muon remembers of a parameter."""

    momentum: Tensor


class _Moments(_Part):
    """What AdamW remembers of a parameter."""

    step: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor


class _Optimizer(_Part):
    state: dict[NonNegativeInt, _Momentum | _Moments]
    """Empty for plain gradient steps, which remember nothing."""
    param_groups: list[_Group] = Field(min_length=1)


class SavedState(_Part):
    """What the state of every training contains."""

    version: Literal[2]
    step: PositiveInt
    model: dict[str, Tensor] = Field(min_length=1)
    averaged: dict[str, Tensor]
    """The running mean of the weights, if there is one."""
    standing: Standing


class StepState(SavedState):
    """The state of a training by gradient steps."""

    optimizer: _Optimizer
    precision: Values
    """The scale of losses in float16."""


def new_state(step: int, learner: Values, standing: Standing) -> Values:
    """A state to save, of what the learner and the run know."""
    return {"version": VERSION, "step": step, **learner, "standing": standing.model_dump()}


StateT = TypeVar("StateT", bound=SavedState)


def checked(kind: type[StateT], values: Values) -> StateT:
    """The parts of a state; an error if one of them is missing or is not what it should be."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(map(str, problem["loc"]))
        why = "is missing" if problem["type"] == "missing" else f"is wrong: {reason(problem)}"
        raise GlassformerError(f"{key} {why}") from None


def check_fit(state: StepState, current: Values, optimizer: Optimizer) -> None:
    """Raise unless the state is that of a model with the weights of `own`, the state of a learner,
    and of this optimizer."""
    saved_weights = {"model": state.model, "averaged": state.averaged}
    for part, saved_part in saved_weights.items():
        expected, saved_shapes = (
            {name: tuple(tensor.shape) for name, tensor in tensors.items()}
            for tensors in (current[part], saved_part)
        )
        for name in expected | saved_shapes:
            if expected.get(name) != saved_shapes.get(name):
                raise GlassformerError(f"{part}.{name} does not fit the model")
    saved = state.optimizer
    groups = [group["params"] for group in optimizer.state_dict()["param_groups"]]
    if groups != [group.params for group in saved.param_groups]:
        raise GlassformerError("groups of parameters do not fit the model")
    if not (saved.state or isinstance(optimizer, SGD)):
        raise GlassformerError("optimizer.state is empty")
    shapes = [weight.shape for group in optimizer.param_groups for weight in group["params"]]
    for index, memory in saved.state.items():
        for key, tensor in memory:
            if index >= len(shapes) or tensor.shape not in ((), shapes[index]):
                raise GlassformerError(f"{key} of parameter {index} does not fit the model")


def check_best(standing: Standing, measures: Iterable[str]) -> None:
    """Raise unless the scores of the best model are those of the task."""
    names = {f"val_{name}" for name in measures}
    if standing.best is not None and not standing.best.keys() >= names:
        raise GlassformerError(
            f"scores of the best model do not contain {', '.join(sorted(names))}"
        )
