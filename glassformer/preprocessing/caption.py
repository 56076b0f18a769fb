"""Images with captions: how images are read, the tokenizer, and the tokens around a caption.

caption   <start> a dog runs across the grass <end>
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from pydantic import Field, model_validator

from glassformer.config import Count
from glassformer.preprocessing.image import ImagePreprocessing
from glassformer.preprocessing.preprocessing import tokenizer_field
from glassformer.text.framing import START, encode_texts
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.word_cache import id_type


class CaptionPreprocessing(ImagePreprocessing):
    """Images to pixels, captions to tokens and back."""

    kind: ClassVar[str] = "caption"
    forbidden: ClassVar[tuple[int, ...]] = ()
    """Tokens that are never written."""

    tokenizer: Tokenizer = tokenizer_field()
    caption_column: str | None = None
    """The column of the training data that contained the captions."""
    longest_caption: Count | None = Field(None, ge=1)
    """Tokens of the longest caption in training, with its end. None: unknown, so only the model's
    context limits the length of a caption."""

    @model_validator(mode="after")
    def _has_end(self) -> Self:
        if self.tokenizer.end_of_text is None:
            raise ValueError("the tokenizer of a captioner needs an end-of-text token")
        return self

    @property
    def start(self) -> int:
        """The token that the decoder reads before its first word."""
        return self.tokenizer.special_tokens.get(START, self.end)

    @property
    def end(self) -> int:
        return cast(int, self.tokenizer.end_of_text)  # which has been validated

    @property
    def sizes(self) -> dict[str, Any]:
        return super().sizes | {"vocab_size": self.tokenizer.vocab_size}

    @property
    def id_type(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds every id."""
        return id_type(self.tokenizer.vocab_size)

    def encode_captions(self, texts: Sequence[str]) -> list[list[int]]:
        """Captions as the decoder writes them."""
        return [[self.start, *ids, self.end] for ids in encode_texts(self.tokenizer, texts)]

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(ids).strip()

    def longest(self, context: int) -> int:
        """The most tokens of a caption, with its end, by a model with this context."""
        return min(context, self.longest_caption or context)

    def trial(self, row: Any) -> tuple[str, ...]:
        return ("IMAGE",)

    def summary(self) -> dict[str, str]:
        kind, size = self.tokenizer.kind, self.tokenizer.vocab_size
        return super().summary() | {"tokenizer": f"{kind}, {size:,} tokens"}

    def facts(self) -> dict[str, Any]:
        words = {"tokenizer": self.tokenizer.kind, "vocab_size": self.tokenizer.vocab_size}
        return super().facts() | words
