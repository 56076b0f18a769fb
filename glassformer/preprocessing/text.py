"""Texts: a tokenizer, and the special tokens around a text that is read as a whole."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from tempfile import TemporaryFile
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, field_validator, model_validator

from glassformer.config import Config, Names
from glassformer.data.chats import TEMPLATE
from glassformer.data.corpus import stream_documents
from glassformer.data.labelled_examples import read_examples, read_texts
from glassformer.data.tag_schemes import SchemeName
from glassformer.data.token_windows import Ids, open_tokens, write_tokens
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing.labelled import LabelledExample, LabelledInputs
from glassformer.preprocessing.preprocessing import tokenizer_field
from glassformer.preprocessing.text_input import TextInput
from glassformer.text.byte_count import ByteCount, ByteCounter
from glassformer.text.framing import MASKS, Frame, readable
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.word_cache import WordCache, id_type, ids_of
from glassformer.wording import beginning

TRIED = 60  # characters of a text in a command to try


class TextPreprocessing(LabelledInputs):
    """Text to tokens and back."""

    kind: ClassVar[str] = "text"
    what_is_kept: ClassVar[str] = "only the beginning and the end are read"

    tokenizer: Tokenizer = tokenizer_field()
    is_causal: bool = False
    """The model reads from left to right: the last token sums up the text."""
    chat_template: Names = TEMPLATE
    """How the messages of conversations are written: strings with {role} and {content}."""
    label_separator: str | None = None
    """What separates several labels in a cell of the training data."""
    tag_scheme: SchemeName | None = None
    """How the tags of the training data mark entities; null if they mark none."""
    end_tokens: Names = ()
    """Entries of the vocabulary that end a generated text, besides the end of text."""
    begin_token: str | None = None
    """The entry that an imported model calls the beginning of a text, though it may read none."""
    jinja_template: str | None = Field(None, max_length=2**20)
    """How an imported model was shown conversations, which `chat` writes in the same way."""

    @field_validator("jinja_template")
    @classmethod
    def _not_blank(cls, template: str | None) -> str | None:
        """Some publishers write "" where they have no template."""
        return template if template and template.strip() else None

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids that end a generated text, the end of text first."""
        ids = (self.tokenizer.end_of_text, *map(self.tokenizer.id, self.end_tokens))
        return tuple(id for id in ids if id is not None)

    @property
    def begin(self) -> int | None:
        """The id that begins a text, which is read before one only if the tokenizer says so."""
        before = self.tokenizer.begins_with
        named = None if self.begin_token is None else self.tokenizer.id(self.begin_token)
        return before[0] if before else named

    def frame(self, limit: int | None) -> Frame:
        """The special tokens around a text, for a model that sees at most `limit` tokens."""
        return Frame.of(self.tokenizer, limit, self.is_causal)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return self._words.encode_batch(readable(self.tokenizer, texts))

    def encode_many(self, texts: Sequence[str]) -> list[Any]:
        found = self._words.encode(readable(self.tokenizer, texts))
        return [np.frombuffer(each, self._words.dtype) for each in found]

    @cached_property
    def _words(self) -> WordCache:
        return WordCache(self.tokenizer)

    def rows(self, encoded: Sequence[Any], limit: int | None) -> tuple[list[Any], list[bool]]:
        frame = self.frame(limit)
        return [frame.put(ids) for ids in encoded], [frame.is_too_long(ids) for ids in encoded]

    def cut(self, row: Any, limit: int) -> Any:
        return self.frame(limit).put_again(row)

    @property
    def text_inputs(self) -> tuple[TextInput, ...]:
        # An empty prompt begins a text.
        before, end = self.tokenizer.begins_with, self.tokenizer.end_of_text
        return (
            TextInput(
                tokenizer="tokenizer",
                before=before,
                if_empty=None if before else end,
                end=end,
            ),
        )

    @property
    def labelled_input(self) -> TextInput:
        """The same for a text that is labelled: as `rows` puts it, without a limit."""
        frame = self.frame(None)
        return TextInput(
            tokenizer="tokenizer",
            before=tuple(frame.before),
            after=tuple(frame.after),
            if_empty=None if frame.before or frame.after else 0,
            is_read_as_a_whole=True,
            carries_blanks=self.tokenizer.carries_blanks,
        )

    @property
    def dtype(self) -> str:
        """The smallest type that holds every id."""
        return id_type(self.tokenizer.vocab_size).str

    def read_labelled(
        self,
        paths: Sequence[str],
        text_column: Sequence[str] = (),
        label_column: str | None = None,
        encoding: str = "utf-8",
    ) -> tuple[Sequence[LabelledExample], list[str]]:
        columns = text_column or self.text_column
        found = read_examples(
            paths,
            columns,
            label_column or self.label_column,
            encoding,
            self.chat_template,
            may_lack_header=not (text_column or label_column),
            label_separator=self.label_separator,
        )
        return found.examples, found.notes

    def read_inputs(
        self, paths: Sequence[str], text_column: Sequence[str], encoding: str
    ) -> Iterator[tuple[str, str]]:
        for document in read_texts(
            paths, text_column, encoding, self.text_column, self.chat_template
        ):
            yield document.text, document.source

    def read_ids(
        self, paths: Sequence[str], text_column: Sequence[str], encoding: str
    ) -> tuple[Ids, ByteCount]:
        """All tokens of the texts in files, one text after the other, and the size of the text. The
        tokens are in a memory-mapped file that has no name."""
        counter = ByteCounter(self.tokenizer)
        columns = text_column or self.text_column
        documents = stream_documents(paths, columns, encoding, self.chat_template)
        with TemporaryFile() as file:
            if write_tokens(file, ids_of(map(counter.passing, documents), self.tokenizer)) < 2:
                raise GlassformerError("there are fewer than two tokens of text to evaluate on.")
            file.flush()
            return open_tokens(file, self.tokenizer.vocab_size), counter.count

    def is_one(self, content: Any) -> bool:
        return isinstance(content, str) or not isinstance(content, Iterable)

    def shown(self, content: Any) -> str:
        if not isinstance(content, str):  # such as the NaN of a data frame
            raise UsageError(f"{content!r} is a {type(content).__name__}, not a text.")
        return content

    def shown_row(self, row: Any) -> str:
        return self.tokenizer.decode(row.tolist())

    def trial(self, row: Any) -> tuple[str, ...]:
        known = row[row != self.tokenizer.unknown]
        return (beginning(self.shown_row(known), TRIED),)


class MaskedConfig(Config):
    """How tokens are hidden in masked-token training."""

    mlm_probability: float = Field(0.15, gt=0, lt=1)
    """Share of the tokens to predict: 80% of them are hidden, 10% replaced by random tokens, and
    10% left as they are."""
    whole_word_masking: bool = False
    """Hide either all pieces of a word or none."""


class MaskedTextPreprocessing(MaskedConfig, TextPreprocessing):
    """Texts in which some tokens are hidden, and how many."""

    kind: ClassVar[str] = "masked_text"

    @model_validator(mode="after")
    def _has_mask(self) -> "MaskedTextPreprocessing":
        if not any(mask in self.tokenizer.special_tokens for mask in MASKS):
            raise ValueError(
                f"the tokenizer of a masked language model has no token {' or '.join(MASKS)}"
            )
        return self

    @property
    def mask_name(self) -> str:
        """How the vocabulary writes the token that hides another."""
        return next(mask for mask in MASKS if mask in self.tokenizer.special_tokens)

    @property
    def mask(self) -> int:
        """The token that hides another."""
        return self.tokenizer.special_tokens[self.mask_name]

    @property
    def mask_takes_blanks(self) -> bool:
        """Whether a mask stands for the blank before it, too: in training here, it does where
        tokens include that blank; a tokenizer of another tool says so."""
        known = self.tokenizer
        has_rule = known.own_frame is not None
        return known.takes_blanks_before(self.mask) if has_rule else known.carries_blanks

    @property
    def text_inputs(self) -> tuple[TextInput, ...]:
        frame = self.frame(None)
        return (
            TextInput(
                tokenizer="tokenizer",
                before=tuple(frame.before),
                after=tuple(frame.after),
                mask=self.mask,
                mask_name=self.mask_name,
            ),
        )
