"""Sentence pairs: the tokenizers of both sides, and the special tokens around a sentence.

source   A man sleeps . <end>
target   <start> Ein Mann schläft . <end>
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from glassformer.config import Config
from glassformer.data.rows import Array
from glassformer.preprocessing.preprocessing import Preprocessing, tokenizer_field
from glassformer.preprocessing.text_input import TextInput
from glassformer.text.framing import START, encode_texts, readable
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.word_cache import WordCache, id_type

RowEncoder = Callable[[Sequence[str]], list[bytes]]

_MARGIN, _EXTRA = 1.2, 10  # a new sentence may need more than any in training


class TargetLength(Config):
    """How long translations were in training: at most ratio × source + offset tokens, both counted
    with their ends."""

    ratio: float = Field(ge=0)
    offset: int = Field(ge=0)

    @classmethod
    def of(cls, sources: Array, targets: Array) -> "TargetLength":
        """The bound of pairs with these lengths. The ratio is one that 99% of the pairs keep to, so
        that a few odd pairs raise the offset, not the limit of every long sentence."""
        ratio = math.ceil(np.quantile(targets / sources, 0.99) * 1000) / 1000
        return cls(ratio=ratio, offset=max(0, math.ceil((targets - ratio * sources).max())))

    def or_longer(self, before: "TargetLength | None") -> "TargetLength":
        """The bound of these pairs and of those that a model was trained on before."""
        if before is None:
            return self
        longest = max(self.ratio, before.ratio), max(self.offset, before.offset)
        return TargetLength(ratio=longest[0], offset=longest[1])

    def limit(self, num_source: int) -> int:
        """The most tokens to write for a source of so many: what training saw, and a margin."""
        return math.ceil(_MARGIN * (self.ratio * num_source + self.offset)) + _EXTRA


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
    start_token: str | None = None
    """The token that the decoder reads before its first word; null: <|startoftext|>, or the end."""
    shares_ids: bool = False
    """Both tokenizers number their tokens alike: one vocabulary, with its own rules for each
    side."""
    target_length: TargetLength | None = None
    """None: unknown, so only the model's context limits the length of a translation."""

    @model_validator(mode="after")
    def _has_ends(self) -> "PairPreprocessing":
        if any(each.end_of_text is None for each in self.tokenizers.values()):
            raise ValueError("the tokenizer of a translator needs an end-of-text token")
        if self.start_token not in (None, *self.target.special_tokens):
            raise ValueError(f"the tokenizer has no special token {self.start_token}")
        return self

    @property
    def sizes(self) -> dict[str, Any]:
        found = super().sizes
        if self.shares_ids:
            both = [size for size in found.values() if size is not None]
            return {"vocab_size": max(both), "target_vocab_size": None}
        return found

    @property
    def source(self) -> Tokenizer:
        return self.tokenizer

    @property
    def target(self) -> Tokenizer:
        return self.target_tokenizer or self.tokenizer

    @property
    def start(self) -> int:
        """The token that the decoder reads before its first word."""
        return self.target.special_tokens.get(self.start_token or START, self.end)

    @property
    def forbidden(self) -> tuple[int, ...]:
        """Tokens that are never written. Imported models have not learned to avoid their start
        token, which is their padding."""
        return (self.start,) if self.start_token is not None and self.start != self.end else ()

    @property
    def end(self) -> int:
        return cast(int, self.target.end_of_text)  # which has been validated

    @property
    def text_inputs(self) -> tuple[TextInput, ...]:
        source = TextInput(
            tokenizer="tokenizer",
            after=(cast(int, self.source.end_of_text),),
            is_read_as_a_whole=True,
            carries_blanks=self.source.carries_blanks,
        )
        target = TextInput(
            tokenizer="target_tokenizer" if self.target_tokenizer else "tokenizer",
            before=(self.start,),
            after=(self.end,),
            is_read_as_a_whole=True,
            carries_blanks=self.target.carries_blanks,
            end=self.end,
            forbidden=self.forbidden,
        )
        return source, target

    def encode_source(self, texts: Sequence[str]) -> list[list[int]]:
        """Sentences as the encoder reads them."""
        end = cast(int, self.source.end_of_text)
        return [[*ids, end] for ids in encode_texts(self.source, texts)]

    def encode_target(self, texts: Sequence[str]) -> list[list[int]]:
        """Sentences as the decoder writes them."""
        return [[self.start, *ids, self.end] for ids in encode_texts(self.target, texts)]

    def row_encoders(self) -> tuple[RowEncoder, RowEncoder]:
        """The same for many sentences of both sides: each row as the bytes of its ids."""
        end = cast(int, self.source.end_of_text)
        return (
            _row_encoder(self.source, self.dtype, before=(), after=(end,)),
            _row_encoder(self.target, self.dtype, before=(self.start,), after=(self.end,)),
        )

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest type that holds every id of both sides."""
        return id_type(max(each.vocab_size for each in self.tokenizers.values()))

    def longest_target(self, num_source: int, context: int) -> int:
        """The most tokens of a translation, with its end, by a model with this context."""
        if self.target_length is None:
            return context
        return min(context, self.target_length.limit(num_source))

    def decode(self, ids: Sequence[int]) -> str:
        return self.target.decode(ids).strip()


def _row_encoder(
    tokenizer: Tokenizer, dtype: npt.DTypeLike, before: Sequence[int], after: Sequence[int]
) -> RowEncoder:
    cache = WordCache(tokenizer, dtype)
    first, last = (np.array(ids, dtype).tobytes() for ids in (before, after))
    return lambda texts: [first + ids + last for ids in cache.encode(readable(tokenizer, texts))]
