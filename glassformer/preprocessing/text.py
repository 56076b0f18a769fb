"""Texts: a tokenizer, and the special tokens around a text that is read as a whole."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from glassformer.data.corpus import read_documents
from glassformer.data.labelled_files import read_examples, read_texts
from glassformer.data.token_windows import ids_of
from glassformer.errors import GlassformerError
from glassformer.preprocessing.labelled import LabelledExample, LabelledInputs
from glassformer.preprocessing.preprocessing import tokenizer_field
from glassformer.text.framing import MASK, Frame, encode_texts
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import beginning

TRIED = 60  # characters of a text in a command to try


class TextPreprocessing(LabelledInputs):
    """Text to tokens and back."""

    kind: ClassVar[str] = "text"

    tokenizer: Tokenizer = tokenizer_field()
    is_causal: bool = False
    """The model reads from left to right: the last token sums up the text."""

    def frame(self, limit: int | None) -> Frame:
        """The special tokens around a text, for a model that sees at most `limit` tokens."""
        return Frame.of(self.tokenizer, limit, self.is_causal)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return encode_texts(self.tokenizer, texts)

    def fit(self, encoded: Sequence[Any], limit: int | None) -> tuple[list[Any], list[bool]]:
        frame = self.frame(limit)
        return [frame.put(ids) for ids in encoded], [frame.is_too_long(ids) for ids in encoded]

    @property
    def dtype(self) -> str:
        """The smallest type that holds every id."""
        return "<u2" if self.tokenizer.vocab_size <= 2**16 else "<u4"

    def read_labelled(
        self,
        paths: Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> tuple[Sequence[LabelledExample], list[str]]:
        columns = text_column or self.text_column
        found = read_examples(paths, columns, label_column or self.label_column, encoding)
        return found.examples, found.notes

    def read_inputs(
        self, paths: Sequence[str], text_column: Sequence[str], encoding: str
    ) -> Iterator[tuple[str, str]]:
        for document in read_texts(paths, text_column or self.text_column, encoding):
            yield document.text, document.source

    def read_ids(
        self, paths: Sequence[str], text_column: Sequence[str], encoding: str
    ) -> tuple[npt.NDArray[np.uint32], int]:
        """All tokens of the texts in files, one text after the other, and their bytes of text."""
        documents = list(read_documents(paths, text_column, encoding))
        pieces = ids_of(documents, self.tokenizer)
        ids = np.concatenate([np.array(piece, dtype=np.uint32) for piece in pieces])
        if len(ids) < 2:
            raise GlassformerError("there are fewer than two tokens of text to evaluate on.")
        return ids, sum(len(document.text.encode()) for document in documents)

    def shown_row(self, row: Any) -> str:
        return self.tokenizer.decode(row.tolist())

    def trial(self, row: Any) -> tuple[str, ...]:
        return (beginning(self.shown_row(row), TRIED),)

    @property
    def what_is_kept(self) -> str:
        return "the beginning and the end are read"


class MaskedTextPreprocessing(TextPreprocessing):
    """Texts in which some tokens are hidden, and how many."""

    kind: ClassVar[str] = "masked_text"

    mlm_probability: float = Field(0.15, gt=0, lt=1)
    whole_word_masking: bool = False

    @model_validator(mode="after")
    def _has_mask(self) -> "MaskedTextPreprocessing":
        if MASK not in self.tokenizer.special_tokens:
            raise ValueError(f"the tokenizer of a masked language model has no token {MASK}")
        return self

    @property
    def mask(self) -> int:
        """The token that hides another."""
        return self.tokenizer.special_tokens[MASK]
