"""Texts as what a model reads: tokens, and

    text   special tokens around a text that is read as a whole
    pair   a sentence in two languages

        source   A man sleeps . <end>
        target   <start> Ein Mann schläft . <end>

`masking.py` hides tokens of a text, `skip_gram.py` finds the neighbours of its words.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from tempfile import TemporaryFile
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from glassformer.config import Config, StringTuple
from glassformer.data.batches import open_tokens, write_tokens
from glassformer.data.chats import TEMPLATE
from glassformer.data.documents import stream_documents
from glassformer.data.labelled_texts import read_examples, read_texts
from glassformer.data.rows import Array
from glassformer.data.tag_schemes import SchemeName
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing import LabelledExample, LabelledInputs, Preprocessing, TextInput
from glassformer.text.tokenizers import START, Tokenizer, encode_texts, readable
from glassformer.text.truncation import Frame
from glassformer.text.word_cache import Ids, WordCache, id_type, ids_of
from glassformer.text.words import ByteCount, ByteCounter
from glassformer.wording import beginning

# --- text ---

TRIED = 60  # characters of a text in a command to try


class TextPreprocessing(LabelledInputs):
    """Text to tokens and back."""

    kind: ClassVar[str] = "text"
    what_is_kept: ClassVar[str] = "only the beginning and the end are read"

    tokenizer: Tokenizer = Field(exclude=True)
    is_causal: bool = False
    """The model reads from left to right: the last token sums up the text."""
    chat_template: StringTuple = TEMPLATE
    """How the messages of conversations are written: strings with {role} and {content}."""
    label_separator: str | None = None
    """What separates several labels in a cell of the training data."""
    tag_scheme: SchemeName | None = None
    """How the tags of the training data mark entities; null if they mark none."""
    end_tokens: StringTuple = ()
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
        encoded = self._words.encode(readable(self.tokenizer, texts))
        return [np.frombuffer(ids, self._words.dtype) for ids in encoded]

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
                tokenizer="tokenizer", before=before, if_empty=None if before else end, end=end
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
        labelled = read_examples(
            paths,
            columns,
            label_column or self.label_column,
            encoding,
            self.chat_template,
            may_lack_header=not (text_column or label_column),
            label_separator=self.label_separator,
        )
        return labelled.examples, labelled.notes

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
        known_ids = row[row != self.tokenizer.unknown]
        return (beginning(self.shown_row(known_ids), TRIED),)


# --- sentence pairs ---

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

    tokenizer: Tokenizer = Field(exclude=True)
    target_tokenizer: Tokenizer | None = Field(None, exclude=True)
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
        if any(tokenizer.end_of_text is None for tokenizer in self.tokenizers.values()):
            raise ValueError("the tokenizer of a translator needs an end-of-text token")
        if self.start_token not in (None, *self.target.special_tokens):
            raise ValueError(f"the tokenizer has no special token {self.start_token}")
        return self

    @property
    def sizes(self) -> dict[str, Any]:
        sizes = super().sizes
        if self.shares_ids:
            both = [size for size in sizes.values() if size is not None]
            return {"vocab_size": max(both), "target_vocab_size": None}
        return sizes

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
        return id_type(max(tokenizer.vocab_size for tokenizer in self.tokenizers.values()))

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
