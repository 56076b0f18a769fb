"""Texts as what a model reads: tokens, and

    text         special tokens around a text that is read as a whole
    masked text  tokens that are hidden, which an encoder learns to predict
    skip-gram    pairs of words that are neighbours, and random words that are not
    pair         a sentence in two languages

        source   A man sleeps . <end>
        target   <start> Ein Mann schläft . <end>

What is hidden and which random words are drawn follows from the seed of a batch.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from tempfile import TemporaryFile
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from glassformer.config import Config, Count, StringTuple
from glassformer.data.batches import open_tokens, write_tokens
from glassformer.data.chats import TEMPLATE
from glassformer.data.documents import stream_documents
from glassformer.data.labelled_texts import read_examples, read_texts
from glassformer.data.rows import Array
from glassformer.data.tag_schemes import SchemeName
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing.preprocessing import (
    LabelledExample,
    LabelledInputs,
    Preprocessing,
    TextInput,
    begins_word,
    tokenizer_field,
)
from glassformer.text.tokenizers import MASKS, START, Frame, Tokenizer, encode_texts, readable
from glassformer.text.word_cache import Ids, WordCache, id_type, ids_of
from glassformer.text.words import ByteCount, ByteCounter
from glassformer.wording import beginning

# --- text ---

TRIED = 60  # characters of a text in a command to try


class TextPreprocessing(LabelledInputs):
    """Text to tokens and back."""

    kind: ClassVar[str] = "text"
    what_is_kept: ClassVar[str] = "only the beginning and the end are read"

    tokenizer: Tokenizer = tokenizer_field()
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
        tokenizer = self.tokenizer
        has_rule = tokenizer.own_frame is not None
        return tokenizer.takes_blanks_before(self.mask) if has_rule else tokenizer.carries_blanks

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


# --- masking: which tokens are hidden ---
# Of the tokens to predict, usually 15%, 80% are hidden behind [MASK], 10% are replaced by a random
# token, and 10% are left as they are, so that the model cannot rely on what it sees.

HIDDEN, REPLACED = 0.8, 0.1  # the rest is left as it is


class MaskedBatch(NamedTuple):
    """Windows as the model sees them, the positions to predict, and the tokens hidden there."""

    ids: Tensor
    is_asked: Tensor
    targets: Tensor


class Masking:
    """Which tokens are hidden, and behind what; for a model that sees `limit` tokens at once."""

    def __init__(self, preprocessing: MaskedTextPreprocessing, limit: int) -> None:
        tokenizer = preprocessing.tokenizer
        self.share = preprocessing.mlm_probability
        self.frame = preprocessing.frame(limit)
        self.room = self.frame.room or limit
        special = set(tokenizer.special_tokens.values())
        self.mask = preprocessing.mask
        self._is_text = np.array([id not in special for id in range(tokenizer.vocab_size)])
        self._text = np.flatnonzero(self._is_text)
        self._continues = None
        if preprocessing.whole_word_masking:
            ids = range(tokenizer.vocab_size)
            self._continues = np.array([begins_word(tokenizer, id) is False for id in ids])

    def batch(self, windows: Array, seed: tuple[int, int]) -> MaskedBatch:
        """Windows (B, T) in their frame, with some of their tokens hidden."""
        shown, is_asked = self.hide(windows, np.random.default_rng(seed))
        before, after = self.frame.before, self.frame.after
        sides = ((0, 0), (len(before), len(after)))
        ids = np.pad(shown, sides)
        ids[:, : len(before)] = before
        ids[:, ids.shape[1] - len(after) :] = after
        return MaskedBatch(
            torch.from_numpy(ids),
            torch.from_numpy(np.pad(is_asked, sides)),
            torch.from_numpy(windows[is_asked]),
        )

    def hide(self, windows: Array, random: np.random.Generator) -> tuple[Array, Array]:
        """The windows as the model sees them, and the positions to predict; both (B, T)."""
        is_asked = self._drawn(windows, random) & self._is_text[windows]
        if not is_asked.any():  # a batch with nothing to predict would have no loss
            candidates = np.argwhere(self._is_text[windows])
            if len(candidates):
                is_asked[tuple(candidates[random.integers(len(candidates))])] = True
        luck = random.random(windows.shape)
        shown = windows.copy()
        shown[is_asked & (luck < HIDDEN)] = self.mask
        replaced = is_asked & (luck >= HIDDEN) & (luck < HIDDEN + REPLACED)
        shown[replaced] = random.choice(self._text, size=int(replaced.sum()))
        return shown, is_asked

    def _drawn(self, windows: Array, random: np.random.Generator) -> Array:
        luck = random.random(windows.shape)
        if self._continues is not None:  # the pieces of a word share the luck of its first
            begins = ~self._continues[windows]
            begins[:, 0] = True
            firsts = np.where(begins, np.arange(windows.shape[1]), 0)
            luck = np.take_along_axis(luck, np.maximum.accumulate(firsts, axis=1), axis=1)
        return luck < self.share


# --- skip-gram: which words of a text are neighbours ---
#
#     the train left the old station        train: (train, left) (train, old) (train, station) …
#
# Punctuation, unknown words and a part of the frequent words are left out first, so that a window
# reaches over them.

OUTSIDE = -1  # the text number of places that contain no word


class SkipGramConfig(Config):
    """Which words are neighbours, and what they are compared with."""

    window: Count = Field(5, ge=1, le=64)
    """How many words away a neighbour may be, on each side; near ones count more."""
    num_negatives: Count = Field(5, ge=1, le=1024)
    """Random words that each pair is weighed against."""
    subsampling: float = Field(1e-3, ge=0, le=1)
    """Words with a larger share of the text are left out at random, the more often the more
    frequent they are; 0: none."""
    smoothing: float = Field(0.75, ge=0, le=1)
    """Random words are drawn by their frequency to this power."""


class SkipGramPreprocessing(SkipGramConfig, TextPreprocessing):
    """Texts as words and their neighbours."""

    kind: ClassVar[str] = "skip_gram"


class SkipGramBatch(NamedTuple):
    """Rows of words, the text that each word belongs to, and random words for each row."""

    ids: Tensor
    """(B, T)"""
    texts: Tensor
    """(B, T) numbers of texts: words of two texts are no neighbours; -1: not a word."""
    negatives: Tensor
    """(B, K)"""


class SkipGram:
    """Rows of neighbours from windows of text; `counts` is how often each token occurs."""

    def __init__(self, preprocessing: SkipGramPreprocessing, counts: Array) -> None:
        tokenizer = preprocessing.tokenizer
        self.window, self.num_negatives = preprocessing.window, preprocessing.num_negatives
        self._end = tokenizer.end_of_text
        is_word = are_words(tokenizer, len(counts))
        words = np.where(is_word, counts, 0).astype(np.float64)
        share = words / max(words.sum(), 1.0)
        # Mikolov et al. 2013, as in their program: √(t / f) + t / f.
        ratio = preprocessing.subsampling / np.maximum(share, 1e-12)
        share_kept = np.sqrt(ratio) + ratio if preprocessing.subsampling else np.ones_like(share)
        self._kept = np.where(is_word, share_kept, 0.0)
        smooth = np.where(words > 0, words**preprocessing.smoothing, 0.0)
        if not smooth.any():  # nothing was counted: all words alike
            smooth = is_word.astype(np.float64)
        self._drawn = np.cumsum(smooth) / max(smooth.sum(), 1.0)

    def batch(self, windows: Array, seed: tuple[int, ...], num_negatives: int) -> SkipGramBatch:
        """Windows (B, T) of ids, and `num_negatives` random words for each row."""
        random = np.random.default_rng(seed)
        is_kept = random.random(windows.shape) < self._kept[windows]
        texts = np.cumsum(windows == self._end, axis=1)  # (B, T)
        order = np.argsort(~is_kept, axis=1, kind="stable")  # what is kept moves to the left
        positions = np.where(np.take_along_axis(is_kept, order, 1), order, -1)
        longest = max(1, int((positions >= 0).sum(axis=1).max()))
        order, positions = order[:, :longest], positions[:, :longest]  # (B, T') the rest is empty
        drawn = random.random((len(windows), num_negatives))
        negatives = np.searchsorted(self._drawn, drawn, side="right")
        return SkipGramBatch(
            torch.from_numpy(np.take_along_axis(windows, order, 1)),
            torch.from_numpy(np.where(positions < 0, OUTSIDE, np.take_along_axis(texts, order, 1))),
            torch.from_numpy(np.minimum(negatives, len(self._drawn) - 1)),
        )


def are_words(tokenizer: Tokenizer, size: int) -> Array:
    """(V,) whether each token is a word or a part of one: known, with a letter or a digit."""
    others = {*tokenizer.special_tokens.values(), tokenizer.unknown}

    def spelled(id: int) -> str:
        if tokenizer.is_byte_level:  # half a character is no letter
            return tokenizer.token_bytes(id).decode(errors="ignore")
        return tokenizer.token(id)

    num_known = min(size, tokenizer.vocab_size)
    flags = [id not in others and any(map(str.isalnum, spelled(id))) for id in range(num_known)]
    return np.array(flags + [False] * (size - num_known))


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
