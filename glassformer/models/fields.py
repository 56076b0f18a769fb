"""Config fields that several models share: their types with bounds, and a check of the input."""

from typing import Annotated

import torch
from pydantic import Field

from glassformer.config import Count
from glassformer.errors import GlassformerError

VocabSize = Annotated[Count, Field(ge=1, le=2**24)]
Features = Annotated[Count, Field(ge=1, le=2**20)]
Context = Annotated[Count, Field(ge=2, le=2**24)]
Layers = Annotated[Count, Field(ge=1, le=1024)]
Heads = Annotated[Count, Field(ge=1, le=2**12)]
Width = Annotated[Count, Field(ge=1, le=2**17)]
Rate = Annotated[float, Field(ge=0, lt=1)]
"""The probability of dropout."""


def check_length(length: int, context_length: int) -> None:
    if torch.compiler.is_exporting():  # the length is a symbol, and may be any
        return
    if length > context_length:
        raise GlassformerError(
            f"{length:,} tokens do not fit in the model's context of {context_length:,}."
        )
