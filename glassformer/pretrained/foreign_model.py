"""A model as it was read from another format."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from glassformer.config import Values
from glassformer.models import name_of, row
from glassformer.preprocessing import Preprocessing
from glassformer.wording import counted


@dataclass(frozen=True)
class ForeignModel:
    """A model with its preprocessing, ready to be saved in a model folder."""

    model: nn.Module
    preprocessing: Preprocessing
    about: str
    """What it is, in a few words."""
    verb: str
    """A verb to try it with."""
    arguments: tuple[str, ...] = ()
    """What follows the folder in a command to try."""
    notes: tuple[str, ...] = ()
    generation: Values = field(default_factory=dict)
    """Defaults of generation."""


def converted(
    architecture: str,
    model: nn.Module,
    preprocessing: Preprocessing,
    notes: Iterable[str],
    generation: Values | None = None,
) -> ForeignModel:
    """A model that had this architecture, with a command to try it."""
    verb, *arguments = command_to_try(model, preprocessing)
    size = counted(sum(parameter.numel() for parameter in model.parameters()), "parameter")
    about = f"{architecture}, {size}"
    return ForeignModel(
        model, preprocessing, about, verb, tuple(arguments), tuple(notes), generation or {}
    )


def command_to_try(model: Any, preprocessing: Preprocessing) -> tuple[str, ...]:
    """A verb to try a model with, and what follows the folder."""
    if not getattr(model.config, "has_head", True):
        return ("embed", "A sentence.")
    mask = getattr(preprocessing, "mask_name", "")
    return tuple(word.format(mask=mask) for word in row(name_of(model)).trial)
