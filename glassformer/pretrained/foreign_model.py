"""A model as it was read from another format."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from glassformer.checkpoint.model_folder import Saved
from glassformer.config import Values
from glassformer.models import name_of, row
from glassformer.preprocessing import Preprocessing
from glassformer.wording import counted


@dataclass(frozen=True, kw_only=True)
class ForeignModel(Saved):
    """A model of another tool, converted to one of ours."""

    about: str
    """What it is, in a few words."""
    command: tuple[str, ...]
    """A verb to try it with, and what follows the folder."""
    notes: tuple[str, ...] = ()


def converted(
    architecture: str,
    model: nn.Module,
    preprocessing: Preprocessing,
    notes: Iterable[str],
    generation: Values | None = None,
) -> ForeignModel:
    """A model that had this architecture, with a command to try it."""
    size = sum(parameter.numel() for parameter in model.parameters())
    return ForeignModel(
        name_of(model),
        model.eval(),
        preprocessing,
        generation or {},
        about=f"{architecture}, {counted(size, 'parameter')}",
        command=command_to_try(model, preprocessing),
        notes=tuple(notes),
    )


def command_to_try(model: Any, preprocessing: Preprocessing) -> tuple[str, ...]:
    """A verb to try a model with, and what follows the folder."""
    if not getattr(model.config, "has_head", True):
        return ("embed", "A sentence.")
    mask = getattr(preprocessing, "mask_name", "")
    return tuple(word.format(mask=mask) for word in row(name_of(model)).trial)
