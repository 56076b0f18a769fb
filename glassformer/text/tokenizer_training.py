"""Training a tokenizer: which kind suits a text, and how each vocabulary is learned from it.

    characters   the set of them
    words        the most frequent ones
    BPE          begin with bytes; join the most frequent neighbours; repeat
    WordPiece    BPE over the letters of a word; all pieces but the first begin with ##
    Unigram      begin with too many pieces; drop those that matter least to the likelihood

A learner takes the text in pieces and the number of entries that are free, and returns a backend
without special tokens. The same text gives the same vocabulary, whatever the library's hash order.
Of much text, a sample is enough.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import isqrt
from typing import Any

import numpy.typing as npt
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from glassformer.config import Config, Count
from glassformer.errors import GlassformerError
from glassformer.options import TokenizerKind
from glassformer.text.tokenizers import (
    CHARACTERS,
    END_OF_TEXT,
    UNKNOWN,
    WORDS,
    Kind,
    Tokenizer,
    pieces_of,
)
from glassformer.wording import readable_size

CHAR_BYTES = 2_000_000  # below this, subwords are seen too seldom to be learned well
_CHAR_ALPHABET = 512  # above this, most characters are seen too seldom

_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
_ALL_BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())

_WORD_START = "▁"
# The time to learn pieces of a word grows with the square of its length. Without blanks, as in
# Chinese or in a genome, a word may be a whole text. A cut hardly changes what is learned.
LONGEST_WORD = 128
LONG_WORDS = 12  # letters on average: more than in any language with spaces
_CUTS_WORDS = ("bpe", "wordpiece", "unigram")
_SCORE_DIGITS = 6  # beyond these, Unigram's scores depend on the order of its sums


class TokenizerConfig(Config):
    """Which vocabulary to learn. With `auto` and None, the amount of text decides."""

    kind: TokenizerKind = "auto"
    vocab_size: Count | None = None
    lowercase: bool | None = None
    """null: true for classifying texts and for word vectors, otherwise false."""


def choose_kind(num_bytes: int, num_characters: int) -> tuple[Kind, str]:
    """The kind that suits a text of this size with so many distinct characters, and why."""
    if num_characters > _CHAR_ALPHABET:
        return "bpe", (
            f"BPE tokenizer: {num_characters:,} distinct characters are too many for a "
            f"character vocabulary (at most {_CHAR_ALPHABET})"
        )
    if num_bytes < CHAR_BYTES:
        return "char", (
            f"character tokenizer: {readable_size(num_bytes)} of text is too little to learn "
            f"good subwords (BPE is used from {readable_size(CHAR_BYTES)})"
        )
    return "bpe", (
        f"BPE tokenizer: {readable_size(num_bytes)} of text is enough to learn subwords "
        f"(characters are used below {readable_size(CHAR_BYTES)})"
    )


def has_spaces(texts: Iterable[str]) -> bool:
    """Whether words are separated by spaces, unlike in Chinese, Japanese or Thai."""
    words = [len(word) for text in texts for word in text.split()]
    return sum(words) <= LONG_WORDS * len(words)


def default_vocab_size(kind: Kind, num_bytes: int = 10_000_000) -> int:
    """A power of two that grows with the square root of the text, as its words do (Heaps' law).

    8,192 subwords for 10 MB. For characters it is no limit: all of Unicode.
    """
    if kind == "char":
        return sys.maxunicode + 1
    root = 3 * isqrt(num_bytes) or 1
    pieces = min(max(2 ** (root.bit_length() - 1), 512), 32_768)
    return 4 * pieces if kind == "word" else pieces  # a word has many forms, each with its own id


def train_tokenizer(
    config: TokenizerConfig | Kind,
    texts: Iterable[str],
    vocab_size: int | None = None,
    special_tokens: Sequence[str] = (),
) -> Tokenizer:
    """Learn a vocabulary from `texts`, which are read once; the same texts give the same file.

    `vocab_size` counts everything, including special tokens, and is an upper limit: a short text
    may not have that many. `special_tokens` are added to <|endoftext|>.
    """
    settings = config if isinstance(config, TokenizerConfig) else TokenizerConfig(kind=config)
    if settings.kind == "auto":
        raise GlassformerError("a tokenizer of kind auto cannot be learned: choose the kind first.")
    names = list(dict.fromkeys([END_OF_TEXT, *special_tokens]))
    size = settings.vocab_size if vocab_size is None else vocab_size
    size = default_vocab_size(settings.kind) if size is None else size
    pieces = _pieces(texts, bool(settings.lowercase))
    if settings.kind in _CUTS_WORDS:
        pieces = chain.from_iterable(map(_with_short_words, pieces))
    backend = LEARN[settings.kind](pieces, size - len(names))
    if settings.lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.add_special_tokens(names)
    return Tokenizer(backend)


def _pieces(texts: Iterable[str], lowercase: bool) -> Iterator[str]:
    """The texts in pieces of bounded size. Raises if all of them are empty."""
    lower = normalizers.Lowercase()
    empty = True
    for text in texts:
        for piece in pieces_of([text]):
            empty = False
            yield lower.normalize_str(piece) if lowercase else piece
    if empty:
        raise GlassformerError("there is no text to learn a tokenizer from: every text is empty.")


def _with_short_words(text: str) -> Iterator[str]:
    """A text, cut within words that are too long."""
    start = 0
    if max(map(len, text.split()), default=0) > LONGEST_WORD:
        for match in re.finditer(rf"\S{{{LONGEST_WORD}}}(?=\S)", text):
            yield text[start : match.end()]
            start = match.end()
    yield text[start:]


def learn_characters(texts: Iterable[str], room: int) -> Backend:
    """Every character has an id, in the order of Unicode.

    There is no <|unk|>: it would never occur in training, so a model could learn nothing for it.
    """
    alphabet: set[str] = set()
    for text in texts:
        alphabet.update(text)
    _check_room("char", len(alphabet), room)
    model = models.WordLevel(_numbered(sorted(alphabet)))
    return _backend(model, CHARACTERS, decoders.Fuse())


def learn_words(texts: Iterable[str], room: int) -> Backend:
    """The most frequent words; the others become <|unk|>."""
    _check_room("word", 2, room)
    backend = _backend(models.WordLevel(), WORDS, spaced_decoder())
    trainer = trainers.WordLevelTrainer(vocab_size=room - 1, show_progress=False)
    backend.train_from_iterator(texts, trainer)
    words = [UNKNOWN, *_in_order(backend)]
    backend.model = models.WordLevel(_numbered(words), unk_token=UNKNOWN)
    return backend


def word_tokenizer(words: Sequence[str], lowercase: bool) -> Tokenizer:
    """A tokenizer with this vocabulary: <|unk|>, the words in their order, <|endoftext|>."""
    model = models.WordLevel(_numbered([UNKNOWN, *words]), unk_token=UNKNOWN)
    backend = _backend(model, WORDS, spaced_decoder())
    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.add_special_tokens([END_OF_TEXT])
    return Tokenizer(backend)


def learn_wordpiece(texts: Iterable[str], room: int) -> Backend:
    """BPE in which every word begins with a mark; then the mark is removed, and the rest gets ##.

    The library's own trainer numbers letters in hash order, which breaks ties at random.
    """
    marked = pre_tokenizers.Metaspace(_WORD_START, prepend_scheme="always", split=False)
    backend = _backend(models.BPE(), pre_tokenizers.Sequence([WORDS, marked]), spaced_decoder())
    trainer = trainers.BpeTrainer(vocab_size=room, min_frequency=2, show_progress=False)
    backend.train_from_iterator(texts, trainer)
    merges = [piece for piece in _in_order(backend) if piece != _WORD_START]
    letters = sorted(set("".join(merges)) - {_WORD_START})
    _check_room("wordpiece", 1 + 2 * len(letters), room)
    entries = [UNKNOWN, *letters, *(f"##{letter}" for letter in letters)]
    entries += [
        piece[1:] if piece.startswith(_WORD_START) else f"##{piece}"
        for piece in merges
        if len(piece) > 1
    ]
    entries = list(dict.fromkeys(entries))[:room]
    model = models.WordPiece(_numbered(entries), unk_token=UNKNOWN)
    return _backend(model, WORDS, spaced_decoder())


def learn_bpe(texts: Iterable[str], room: int) -> Backend:
    """As in GPT-2: merges within words, over an alphabet of all bytes."""
    _check_room("bpe", len(_ALL_BYTES), room)
    backend = _backend(models.BPE(), _BYTES, decoders.ByteLevel())
    trainer = trainers.BpeTrainer(
        vocab_size=room, min_frequency=2, initial_alphabet=_ALL_BYTES, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def learn_unigram(texts: Iterable[str], room: int) -> Backend:
    """Over bytes, like BPE and unlike SentencePiece's: no text is unknown, no space is lost, and a
    text can be encoded in pieces.

    The library sums in hash order and ranks unseen bytes by it; rounding and sorting undo both.
    """
    _check_room("unigram", len(_ALL_BYTES), room)
    backend = _backend(models.Unigram(), _BYTES, decoders.ByteLevel())
    trainer = trainers.UnigramTrainer(
        vocab_size=room, initial_alphabet=_ALL_BYTES, show_progress=False
    )
    backend.train_from_iterator(texts, trainer)
    learned: list[tuple[str, float]] = json.loads(backend.to_str())["model"]["vocab"]
    floor = min(score for _, score in learned)
    unseen = floor + len(_ALL_BYTES) * 1e-4  # the library ranks unseen bytes in steps of 0.0001
    scores = [
        (piece, round(floor if len(piece) == 1 and score <= unseen else score, _SCORE_DIGITS))
        for piece, score in learned
    ]
    scores.sort(key=lambda entry: (-entry[1], entry[0]))
    backend.model = models.Unigram(scores, None, False)
    return backend


LEARN: dict[str, Callable[[Iterable[str], int], Backend]] = {
    "char": learn_characters,
    "word": learn_words,
    "wordpiece": learn_wordpiece,
    "bpe": learn_bpe,
    "unigram": learn_unigram,
}


def _backend(
    model: models.Model, split: pre_tokenizers.PreTokenizer, decoder: decoders.Decoder
) -> Backend:
    backend = Backend(model)
    backend.pre_tokenizer, backend.decoder = split, decoder
    return backend


def spaced_decoder() -> decoders.Decoder:
    """Words with spaces between them, except where typography has none."""
    return decoders.Sequence(
        [
            decoders.WordPiece(prefix="##", cleanup=False),
            decoders.Fuse(),
            decoders.Replace(Regex(r" (?=[.,;:!?…%)\]}’”])"), ""),
            decoders.Replace(Regex(r"(?<=[(\[{‘“$£#@]) "), ""),
            decoders.Replace(Regex(r" ?\n ?"), "\n"),
        ]
    )


def _in_order(backend: Backend) -> list[str]:
    vocab = backend.get_vocab(with_added_tokens=False)
    return sorted(vocab, key=vocab.__getitem__)


def _numbered(entries: Iterable[str]) -> dict[str, int]:
    return {entry: id for id, entry in enumerate(entries)}


def _check_room(kind: str, least: int, room: int) -> None:
    if room < least:
        raise GlassformerError(
            f"vocab_size leaves {max(room, 0):,} entries besides the special tokens; a {kind} "
            f"vocabulary of this text needs at least {least:,}. Raise vocab_size."
        )


# --- a sample of texts that come one by one ---

Array = npt.NDArray[Any]

LIMIT = 32_000_000  # bytes in UTF-8: more text hardly changes the most frequent pieces


class TextSample:
    """Keeps every text, then every second, every fourth … so that no part of the data is missing;
    and counts all of them."""

    def __init__(self, limit: int = LIMIT, needs_alphabet: bool = False) -> None:
        self._limit, self._needs_alphabet = limit, needs_alphabet
        self._texts: list[str] = []
        self.num_kept_bytes = 0
        """Size of the texts in the sample, in UTF-8."""
        self._every, self._number = 1, 0
        self.num_bytes = 0
        """Size of all texts, in UTF-8."""
        self.alphabet: set[str] = set()
        """Every character of all texts, if it is needed."""

    def add(self, text: str) -> None:
        size = num_bytes(text)
        self.num_bytes += size
        if self._needs_alphabet:
            self.alphabet.update(text)
        if self._number % self._every == 0:
            self._texts.append(text)
            self.num_kept_bytes += size
        self._number += 1
        while self.num_kept_bytes > self._limit and len(self._texts) > 1:
            self._texts = self._texts[::2]
            self._every *= 2
            self.num_kept_bytes = sum(map(num_bytes, self._texts))

    @classmethod
    def of_sizes(
        cls, sizes: Array, texts: Callable[[int], Iterable[str]], limit: int = LIMIT
    ) -> "TextSample":
        """The sample that these texts would make, in the same order. Their sizes are known, so only
        those in the sample are read: `texts(n)` are one in n."""
        sample = cls(limit)
        while sizes[:: sample._every].sum() > limit and len(sizes) > sample._every:
            sample._every *= 2
        sample._texts, sample._number = list(texts(sample._every)), len(sizes)
        sample.num_kept_bytes = int(sizes[:: sample._every].sum())
        sample.num_bytes = int(sizes.sum())
        return sample

    @property
    def is_partial(self) -> bool:
        return self._every > 1

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)


def one_in(num_bytes: int, limit: int = LIMIT) -> int:
    """The n for which one text in n makes a sample of at most `limit` bytes."""
    return max(1, -(-num_bytes // limit))


def num_bytes(text: str) -> int:
    """The size of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
