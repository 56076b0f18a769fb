"""Sentence pairs: the tokenizers of both sides, and the special tokens around a sentence.

source   A man sleeps . <end>
target   <start> Ein Mann schläft . <end>
"""

from collections.abc import Sequence
from typing import ClassVar, cast

from pydantic import model_validator

from glassformer.preprocessing.preprocessing import Preprocessing, tokenizer_field
from glassformer.text.framing import START, encode_texts
from glassformer.text.tokenizers import Tokenizer


class PairPreprocessing(Preprocessing):
    """Two languages, with one vocabulary or one each."""

    kind: ClassVar[str] = "pair"

    tokenizer: Tokenizer = tokenizer_field()
    target_tokenizer: Tokenizer | None = tokenizer_field(default=None)
    """None: both sides share one vocabulary."""
    source_column: str | None = None
    """The columns (or languages) of the training data."""
    target_column: str | None = None
    reverse: bool = False
    """The training data was read from target to source."""

    @model_validator(mode="after")
    def _has_ends(self) -> "PairPreprocessing":
        if any(each.end_of_text is None for each in self.tokenizers.values()):
            raise ValueError("the tokenizer of a translator needs an end-of-text token")
        return self

    @property
    def source(self) -> Tokenizer:
        return self.tokenizer

    @property
    def target(self) -> Tokenizer:
        return self.target_tokenizer or self.tokenizer

    @property
    def start(self) -> int:
        """The token that the decoder reads before its first word."""
        return self.target.special_tokens.get(START, self.end)

    @property
    def end(self) -> int:
        return cast(int, self.target.end_of_text)  # which has been validated

    def encode_source(self, texts: Sequence[str]) -> list[list[int]]:
        """Sentences as the encoder reads them."""
        end = cast(int, self.source.end_of_text)
        return [[*ids, end] for ids in encode_texts(self.source, texts)]

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        """Sentences as the decoder writes them."""
        return [[self.start, *ids, self.end] for ids in encode_texts(self.target, texts)]

    def decode(self, ids: Sequence[int]) -> str:
        return self.target.decode(ids).strip()
