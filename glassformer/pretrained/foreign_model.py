"""A model as it was read from another format."""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from glassformer.models import name_of, row
from glassformer.preprocessing import Preprocessing


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
    generation: dict[str, Any] = field(default_factory=dict)
    """Defaults of generation."""


def command_to_try(model: Any, preprocessing: Preprocessing) -> tuple[str, ...]:
    """A verb to try a model with, and what follows the folder."""
    if not getattr(model.config, "has_head", True):
        return ("embed", "A sentence.")
    mask = getattr(preprocessing, "mask_name", "")
    return tuple(word.format(mask=mask) for word in row(name_of(model)).trial)
