"""Much text to ids, fast: each word is encoded once, and looked up when it occurs again.

    " a fine film"  →  " a" · " fine" · " film"  →  263 · 1074 · 512

No token reaches from a word into the space after it, so the ids of a text are those of its words,
each with the space before it. A few thousand words are most of a text: looking them up in a
dictionary is many times as fast as the `tokenizers` library, whose ids these are.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from threading import Lock

import numpy as np
import numpy.typing as npt

from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import SIZE, LongText, Tokenizer, pieces_of, words_of

Ids = npt.NDArray[np.unsignedinteger]

_CHARACTERS_AT_ONCE = 2**19  # of long texts: how much of them is in memory
_MOST = 2**18  # words that are remembered
_LONGEST = 48  # characters of a word that is likely to occur again
_WORDS_AT_ONCE = 4_000  # that are encoded together: the library needs 40 bytes for each byte
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
        self._ids: dict[str, bytes] = {}
        self._lock = Lock()  # for models that several threads use

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """The ids of each text, in bytes."""
        ids: list[bytes] = []
        split: list[list[str]] = []
        size = 0
        with self._lock:
            for text in texts:
                split.append(self._words(text))
                size += len(text)
                if size >= SIZE:  # few words at a time, so that they are still in the CPU's cache
                    ids += self._ids_of(split)
                    split, size = [], 0
            return ids + self._ids_of(split)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [np.frombuffer(ids, self.dtype).tolist() for ids in self.encode(texts)]

    def _ids_of(self, split: Sequence[Sequence[str]]) -> list[bytes]:
        """The ids of each text, of which the words are given."""
        if len(self._ids) > _MOST:
            self._ids.clear()
        new = sorted(set[str]().union(*split).difference(self._ids))
        for first in range(0, len(new), _WORDS_AT_ONCE):
            words = new[first : first + _WORDS_AT_ONCE]
            encoded = self._tokenizer.encode_batch(words)
            stored = np.array([*chain.from_iterable(encoded)], self.dtype).tobytes()
            ends = accumulate((len(ids) * self.dtype.itemsize for ids in encoded), initial=0)
            spans = (stored[start:end] for start, end in pairwise(ends))
            self._ids.update(zip(words, spans, strict=True))
        result = [b"".join(map(self._ids.__getitem__, words)) for words in split]
        for word in new:
            if len(word) > _LONGEST:
                del self._ids[word]
        return result

    def _words(self, text: str) -> list[str]:
        """The text in parts that can be encoded one by one."""
        if self._tokenizer.is_by_character:  # every cut is safe
            return _FEW_CHARACTERS.findall(text)
        if not self._tokenizer.keeps_within_words:
            return [text]
        if len(text) <= SIZE:
            return words_of(text)
        return [word for piece in pieces_of([text]) for word in words_of(piece)]


def ids_of(texts: Iterable[LongText], tokenizer: Tokenizer) -> Iterator[Ids]:
    """The ids of texts of any length, with an end-of-text token before and after every text, in
    arrays that end anywhere. Only the text between two arrays is in memory."""
    cache = WordCache(tokenizer)
    end = np.array([] if tokenizer.end_of_text is None else [tokenizer.end_of_text], cache.dtype)
    yield end
    batch: list[tuple[str, str]] = []  # pieces and their sources; "" is the end of a text
    size = 0

    def encoded() -> Ids:
        try:
            ids = iter(cache.encode([piece for piece, _ in batch if piece]))
        except GlassformerError:
            _name_text(tokenizer, batch)
            raise
        joined = b"".join(next(ids) if piece else end.tobytes() for piece, _ in batch)
        return np.frombuffer(joined, cache.dtype)

    for text in texts:
        for piece in chain(filter(None, tokenizer.safe_pieces(text.parts)), [""]):
            batch.append((piece, text.source))
            size += len(piece)
            if size >= _CHARACTERS_AT_ONCE:
                yield encoded()
                batch, size = [], 0
    yield encoded()


def _name_text(tokenizer: Tokenizer, batch: Iterable[tuple[str, str]]) -> None:
    """Raise an error that names the text that cannot be encoded."""
    for piece, source in batch:
        try:
            tokenizer.encode(piece)
        except GlassformerError as error:
            raise GlassformerError(f"{source}: {error}") from None
