"""What a saved state contains, checked as a whole before any of it is used.

The checksums of a state show that its bytes are those that were written. They do not show that it
is complete: it may have been edited, or written by another version.
"""

from collections.abc import Iterable
from typing import Literal, Self, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError
from torch import Tensor
from torch.optim import SGD, Optimizer

from glassformer.config import Values
from glassformer.config_errors import reason
from glassformer.errors import GlassformerError
from glassformer.runtime.facts import cpu_name

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


def check_fit(state: StepState, own: Values, optimizer: Optimizer) -> None:
    """Raise unless the state is that of a model with the weights of `own`, the state of a learner,
    and of this optimizer."""
    saved_weights = {"model": state.model, "averaged": state.averaged}
    for part, saved_part in saved_weights.items():
        expected, saved_shapes = (
            {name: tuple(tensor.shape) for name, tensor in tensors.items()}
            for tensors in (own[part], saved_part)
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
    shapes = [each.shape for group in optimizer.param_groups for each in group["params"]]
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
