"""Much text to ids, fast: each word is encoded once, and looked up when it occurs again.

    " a fine film"  →  " a" · " fine" · " film"  →  263 · 1074 · 512

No token reaches from a word into the space after it, so the ids of a text are those of its words,
each with the space before it. A few thousand words are most of a text: looking them up
(`word_table.py`) is many times as fast as the `tokenizers` library, whose ids these are.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from threading import Lock

import numpy as np
import numpy.typing as npt

from glassformer.errors import GlassformerError
from glassformer.text.chunks import SIZE, LongText, pieces_of, words_of
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.word_table import PADDING, WordTable

Ids = npt.NDArray[np.unsignedinteger]

_CHARACTERS_AT_ONCE = 2**19  # of long texts: how much of them is in memory
_MOST = 2**18  # words that are remembered
_FEW_CHARACTERS = re.compile(r"\s{1,8}\S{0,8}|\S{1,8}")
_NOT_AT_THE_END = ("", " ", "\t", "\r", "\n")
_BEFORE_WORDS = np.zeros(256, np.bool_)  # by byte
_BEFORE_WORDS[[*b"\0 \t\r\n"]] = True


def id_type(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """The smallest type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 2**16 else "<u4")


class WordCache:
    """Encodes texts as `Tokenizer.encode_batch` does, and remembers the words."""

    def __init__(self, tokenizer: Tokenizer, dtype: npt.DTypeLike | None = None) -> None:
        """`dtype` is the type of the ids (None: the smallest that holds all)."""
        self.dtype = np.dtype(dtype or id_type(tokenizer.vocab_size))
        self._tokenizer = tokenizer
        self._table = WordTable(tokenizer.encode_batch, self.dtype)
        self._lock = Lock()  # for models that several threads use

    def encode(self, texts: Sequence[str]) -> list[bytes]:
        """The ids of each text, in bytes."""
        is_plain = [self._tokenizer.keeps_within_words and _is_plain(text) for text in texts]
        plain = [text for text, is_so in zip(texts, is_plain, strict=True) if is_so]
        others = [text for text, is_so in zip(texts, is_plain, strict=True) if not is_so]
        with self._lock:
            if len(self._table) > _MOST:
                self._table.clear()
            of_plain, of_others = iter(self._plain_ids(plain)), iter(self._other_ids(others))
        return [next(of_plain if is_so else of_others) for is_so in is_plain]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return [np.frombuffer(each, self.dtype).tolist() for each in self.encode(texts)]

    def _plain_ids(self, texts: Sequence[str]) -> list[bytes]:
        """The ids of texts whose words can be found in their bytes."""
        if not texts:
            return []
        text = ("\0" + "\0".join(texts)).encode() + PADDING
        values = np.frombuffer(text, np.uint8)
        is_before = _BEFORE_WORDS.take(values)
        # A word begins with the first blank after another word. The last one is the padding.
        starts = np.flatnonzero(np.diff(is_before, prepend=False) & is_before)
        is_first = values.take(starts) == 0  # of a text
        lengths = np.diff(starts) - is_first[:-1]  # without the NUL before it
        ids, counts = self._table.look_up(text, (starts + is_first)[:-1], lengths)
        return self._cut(ids, counts, np.flatnonzero(is_first))

    def _other_ids(self, texts: Sequence[str]) -> list[bytes]:
        """The same for all texts."""
        split = [self._words(text) for text in texts]
        words = [word.encode("utf-8", "surrogatepass") for each in split for word in each]
        lengths = np.array([len(word) for word in words], np.int64)
        starts = np.cumsum(lengths) - lengths
        ids, counts = self._table.look_up(b"".join(words) + PADDING, starts, lengths)
        first_words = np.cumsum([0, *map(len, split)])
        return self._cut(ids, counts, first_words)

    def _words(self, text: str) -> list[str]:
        """The text in parts that can be encoded one by one."""
        if self._tokenizer.is_by_character:  # every cut is safe
            return _FEW_CHARACTERS.findall(text)
        if not self._tokenizer.keeps_within_words:
            return [text]
        if len(text) <= SIZE:
            return words_of(text)
        return [word for piece in pieces_of([text]) for word in words_of(piece)]

    def _cut(
        self, ids: Ids, counts: npt.NDArray[np.int64], first_words: npt.NDArray[np.int64]
    ) -> list[bytes]:
        """The ids of each text; `first_words` are the numbers of their first words, and the number
        of all words."""
        places = np.append(0, np.cumsum(counts)).take(first_words) * self.dtype.itemsize
        stored = ids.tobytes()
        return [stored[start:end] for start, end in pairwise(places.tolist())]


def _is_plain(text: str) -> bool:
    """Whether all whitespace is such that words begin with it, and none is at the end."""
    if text[-1:] in _NOT_AT_THE_END:
        return False
    if text.isprintable():  # its only whitespace is blanks
        return True
    for blank in "\n\t\r":
        text = text.replace(blank, " ")
    return text.isprintable()


def ids_of(texts: Iterable[LongText], tokenizer: Tokenizer) -> Iterator[Ids]:
    """The ids of texts of any length, with an end-of-text token before and after every text, in
    arrays that end anywhere. Only the text between two arrays is in memory."""
    cache = WordCache(tokenizer)
    end = tokenizer.end_of_text
    end_ids = np.array([] if end is None else [end], cache.dtype)
    yield end_ids
    end_bytes = end_ids.tobytes()
    pieces, sources = list[str](), list[str]()
    after: list[bytes] = []  # the ids after each piece: none, or the end of its text
    size = 0

    def encoded() -> Ids:
        try:
            found = cache.encode(pieces)
        except GlassformerError:
            _name_text(tokenizer, pieces, sources)
            raise
        joined = b"".join(chain.from_iterable(zip(found, after, strict=True)))
        return np.frombuffer(joined, cache.dtype)

    # Tokens of another tool may reach across spaces: then each text is needed as a whole.
    is_safe = tokenizer.keeps_within_words
    for text in texts:
        start = len(pieces)
        for piece in pieces_of(text.parts) if is_safe else ["".join(text.parts)]:
            pieces.append(piece)
            sources.append(text.source)
            after.append(b"")
            size += len(piece)
            if size >= _CHARACTERS_AT_ONCE:
                yield encoded()
                pieces, sources, after, size, start = [], [], [], 0, 0
        if len(pieces) == start:  # everything of this text has been encoded already
            pieces.append("")
            sources.append(text.source)
            after.append(b"")
        after[-1] = end_bytes
    yield encoded()


def _name_text(tokenizer: Tokenizer, pieces: Sequence[str], sources: Sequence[str]) -> None:
    """Raise an error that names the text that cannot be encoded."""
    for piece, source in zip(pieces, sources, strict=True):
        try:
            tokenizer.encode(piece)
        except GlassformerError as error:
            raise GlassformerError(f"{source}: {error}") from None
