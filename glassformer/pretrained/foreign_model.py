"""A model as it was read from another format."""

from dataclasses import dataclass, field
from typing import Any

from torch import nn

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
