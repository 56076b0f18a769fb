"""What a saved state contains, checked as a whole before any of it is used.

The checksums of a state show that its bytes are those that were written. They do not show that it
is complete: it may have been edited, or written by another version.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError
from torch import Tensor
from torch.optim import SGD, Optimizer

from glassformer.config import Values
from glassformer.config_errors import reason
from glassformer.errors import GlassformerError
from glassformer.runtime.facts import cpu_name

STANDING = "standing"  # the part of a state that holds a SavedStanding
VERSION = "pytorch-lightning_version"
BATCHES = "epoch_loop.batch_progress"


def machine_facts() -> dict[str, str]:
    """What the bits of a result depend on besides the recipe."""
    return {"torch": torch.__version__, "processor": cpu_name()}


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)


class SavedStanding(_Part):
    """What a run knows about itself besides weights and optimizer: saved with every state."""

    recipe: Values
    losses: list[float]
    """Since the last line of metrics.csv."""
    trace: list[float]
    """The loss of each step since a state was due."""
    machine: dict[str, str]
    stale: NonNegativeInt
    """Validations since the best one."""
    val: float | None
    best: dict[str, float] | None
    """The scores of the best model, as metrics.csv names them."""
    best_step: int | None

    @classmethod
    def at_the_start(cls, recipe: Values) -> Self:
        """Of a run that has not made a step. The fields themselves have no defaults: a state
        without one of them is damaged."""
        return cls(
            recipe=recipe,
            losses=[],
            trace=[],
            machine=machine_facts(),
            stale=0,
            val=None,
            best=None,
            best_step=None,
        )


class _Tally(_Part):
    ready: NonNegativeInt
    completed: NonNegativeInt
    started: NonNegativeInt | None = None


class _Progress(_Part):
    total: _Tally
    current: _Tally


class _FullTally(_Tally):
    started: NonNegativeInt
    processed: NonNegativeInt


class _EpochProgress(_Part):
    total: _FullTally
    current: _FullTally


class _BatchProgress(_EpochProgress):
    is_last_batch: bool


class _Updates(_Part):
    step: _Progress
    zero_grad: _Progress


class _OptimizerProgress(_Part):
    optimizer: _Updates


class _FitLoop(_Part):
    """Lightning's counters. It keeps others, but a training never needs them."""

    epochs: _EpochProgress = Field(alias="epoch_progress")
    counts: dict[str, NonNegativeInt] = Field(alias="epoch_loop.state_dict")
    batches: _BatchProgress = Field(alias=BATCHES)
    updates: _OptimizerProgress = Field(
        alias="epoch_loop.automatic_optimization.optim_progress",
    )


class _Loops(_Part):
    fit_loop: _FitLoop


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


class _Callbacks(_Part):
    standing: SavedStanding


class SavedState(_Part):
    """What the state of every training contains."""

    state_dict: dict[str, Tensor] = Field(min_length=1)
    callbacks: _Callbacks


class StepState(SavedState):
    """The state of a training by gradient steps, as Lightning names its parts."""

    version: str = Field(alias=VERSION)
    epoch: NonNegativeInt
    global_step: NonNegativeInt
    loops: _Loops
    optimizer_states: list[_Optimizer] = Field(min_length=1, max_length=1)
    lr_schedulers: list[Any] = Field(max_length=0)

    def counters(self, batches_per_step: int) -> Values:
        """What Lightning continues to count from, if each step takes so many batches."""
        values = self.loops.model_dump(by_alias=True, exclude_none=True)
        tallies = values["fit_loop"][BATCHES]
        for tally in (tallies["total"], tallies["current"]):
            more = self.global_step * batches_per_step - tally["ready"]
            tally.update({key: count + more for key, count in tally.items()})
        return values


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


def check_counters(state: StepState, step: int, batches_per_step: int) -> None:
    """Raise unless all the counters of a state are those of its step. The batches are those of one
    process, which may have been one of several."""
    loop = state.loops.fit_loop
    for name, found, expected in (
        ("global_step", state.global_step, step),
        ("number of updates", loop.updates.optimizer.step.total.completed, step),
    ):
        if found != expected:
            raise GlassformerError(f"{name} is {found:,}, but must be {expected:,}")
    found, expected = loop.batches.current.ready, step * batches_per_step
    if not found or found % step or expected % found:
        raise GlassformerError(f"number of batches is {found:,}, but must divide {expected:,}")


def check_fit(state: StepState, weights: Mapping[str, Tensor], optimizer: Optimizer) -> None:
    """Raise unless the state is that of a model with these weights and of this optimizer."""
    expected, found = (
        {name: tuple(each.shape) for name, each in named.items()}
        for named in (weights, state.state_dict)
    )
    for name in expected | found:
        if expected.get(name) != found.get(name):
            raise GlassformerError(f"state_dict.{name} does not fit the model")
    (saved,) = state.optimizer_states
    groups = [group["params"] for group in optimizer.state_dict()["param_groups"]]
    if groups != [group.params for group in saved.param_groups]:
        raise GlassformerError("groups of parameters do not fit the model")
    if not (saved.state or isinstance(optimizer, SGD)):
        raise GlassformerError("optimizer_states are empty")
    shapes = [each.shape for group in optimizer.param_groups for each in group["params"]]
    for number, memory in saved.state.items():
        for key, tensor in memory:
            if number >= len(shapes) or tensor.shape not in ((), shapes[number]):
                raise GlassformerError(f"{key} of parameter {number} does not fit the model")


def check_best(standing: SavedStanding, measures: Iterable[str]) -> None:
    """Raise unless the scores of the best model are those of the task."""
    names = {f"val_{name}" for name in measures}
    if standing.best is not None and not standing.best.keys() >= names:
        raise GlassformerError(
            f"scores of the best model do not contain {', '.join(sorted(names))}"
        )
