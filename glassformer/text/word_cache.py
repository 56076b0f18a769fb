"""Much text to ids, fast: each word is encoded once, and looked up when it occurs again.

    " a fine film"  →  " a" · " fine" · " film"  →  263 · 1074 · 512

No token reaches from a word into the space after it, so the ids of a text are those of its words,
each with the space before it. A few thousand words are most of a text: looking them up is several
times as fast as the `tokenizers` library, whose ids these are.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from threading import Lock

import numpy as np
import numpy.typing as npt

from glassformer.errors import GlassformerError
from glassformer.text.chunks import SIZE, LongText, pieces_of, words_of
from glassformer.text.tokenizers import Tokenizer

Ids = npt.NDArray[np.unsignedinteger]

_CHARACTERS_AT_ONCE = 2**19  # of long texts: how much of them is in memory
_WORDS_AT_ONCE = 4_000  # that are encoded together: the library needs 40 bytes for each byte
_MOST = 2**18  # words that are remembered
_LONGEST = 48  # characters of a word that is likely to occur again
_FEW_CHARACTERS = re.compile(r"\s{1,8}\S{0,8}|\S{1,8}")


def id_type(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """The smallest type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


class WordCache:
    """Encodes texts as `Tokenizer.encode_batch` does, and remembers the words."""

    def __init__(self, tokenizer: Tokenizer, dtype: npt.DTypeLike | None = None) -> None:
        """`dtype` is the type of the ids (None: the smallest that holds all)."""
        self.dtype = np.dtype(dtype or id_type(tokenizer.vocab_size))
        self._tokenizer = tokenizer
        self._known: dict[str, bytes] = {}
        self._once: list[str] = []  # too long to occur again
        self._lock = Lock()  # for models that several threads use

    def words(self, text: str) -> list[str]:
        """The text in parts that can be encoded one by one."""
        if self._tokenizer.is_by_character:  # every cut is safe
            return _FEW_CHARACTERS.findall(text)
        if not self._tokenizer.keeps_within_words:
            return [text]
        if len(text) <= SIZE:
            return words_of(text)
        return [word for piece in pieces_of([text]) for word in words_of(piece)]

    def look_up(self, words: Iterable[str]) -> dict[str, bytes]:
        """The ids of these words, and perhaps of others, in bytes; until the next call."""
        known = self._known
        for word in self._once:
            del known[word]
        if len(known) > _MOST:
            known.clear()
        new = list(set(words).difference(known))
        self._once = []  # should encoding fail
        for first in range(0, len(new), _WORDS_AT_ONCE):
            some = new[first : first + _WORDS_AT_ONCE]
            for word, ids in zip(some, self._tokenizer.encode_batch(some), strict=True):
                known[word] = np.array(ids, self.dtype).tobytes()
        self._once = [word for word in new if len(word) > _LONGEST]
        return known

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """The ids of each text, in bytes."""
        split = [self.words(text) for text in texts]
        with self._lock:
            known = self.look_up(chain.from_iterable(split))
            return [b"".join(map(known.__getitem__, each)) for each in split]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [np.frombuffer(each, self.dtype).tolist() for each in self.encode(texts)]


def ids_of(texts: Iterable[LongText], tokenizer: Tokenizer) -> Iterator[Ids]:
    """The ids of texts of any length, with an end-of-text token before and after every text, in
    arrays that end anywhere. Only the text between two arrays is in memory."""
    cache = WordCache(tokenizer)
    end = tokenizer.end_of_text
    end_ids = np.array([] if end is None else [end], cache.dtype)
    yield end_ids
    words: list[str | None] = []  # None: the end of a text
    sources: list[str] = []
    size = 0

    def encoded() -> Ids:
        try:
            known = cache.look_up(word for word in words if word is not None)
        except GlassformerError:
            _name_text(tokenizer, words, sources)
            raise
        ends = end_ids.tobytes()
        joined = b"".join(ends if word is None else known[word] for word in words)
        return np.frombuffer(joined, cache.dtype)

    for text in texts:
        sources.append(text.source)
        # Tokens of another tool may reach across spaces: then each text is needed as a whole.
        is_safe = tokenizer.keeps_within_words
        for piece in pieces_of(text.parts) if is_safe else ["".join(text.parts)]:
            words += cache.words(piece)
            size += len(piece)
            if size >= _CHARACTERS_AT_ONCE:
                yield encoded()
                words, sources, size = [], [text.source], 0
        words.append(None)
    yield encoded()


def _name_text(tokenizer: Tokenizer, words: list[str | None], sources: list[str]) -> None:
    """Raise an error that names the text that cannot be encoded."""
    rest = iter(words)
    for source in sources:
        text = "".join(word for word in iter(partial(next, rest, None), None))
        try:
            tokenizer.encode(text)
        except GlassformerError as error:
            raise GlassformerError(f"{source}: {error}") from None
