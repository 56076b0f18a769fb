"""Words to the ids of their tokens, looked up many at a time: as arrays, not one by one in Python.

    bytes of a text   ␣a␣fine␣film
    words             starts 0 2 7, lengths 2 5 5
    each word         its bytes and its length as three numbers  →  a slot  →  an entry

An entry is found only if all three numbers are equal, so the answer never depends on luck. A slot
has room for one entry. Words whose slot is taken or which are too long for three numbers are in a
dictionary.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Encode = Callable[[Sequence[str]], Sequence[Sequence[int]]]

PADDING = bytes(24)  # must follow the words, since a word is read in three steps of eight bytes
_WIDTH = 23  # bytes of a word that has a slot; the last of the 24 is its length
_SLOT_BITS = 18
_WORDS_AT_ONCE = 4_000  # that are encoded together: the library needs 40 bytes for each byte
_LONGEST = 48  # bytes of a word that is likely to occur again
_FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)  # odd, of random bits
_LAST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
# (3, 24) which bits of each number belong to a word, by its length
_MASKS = np.array(
    [[2 ** (8 * min(8, max(0, n - at))) - 1 for n in range(_WIDTH + 1)] for at in (0, 8, 16)],
    np.uint64,
)


class WordTable:
    """The words that were looked up, and their ids."""

    def __init__(self, encode: Encode, dtype: npt.DTypeLike) -> None:
        self._encode, self._dtype = encode, dtype
        self.clear()

    def clear(self) -> None:
        """Forget all words. Entry 0, with the numbers 0, stands for no word."""
        self._slots = np.zeros(2**_SLOT_BITS, np.int32)
        self._keys = [_Growing(np.uint64, [0]) for _ in _FACTORS]
        self._ends = _Growing(np.int64, [0])  # of the ids of each entry
        self._ids = _Growing(self._dtype)
        self._without_slot: dict[bytes, int] = {}
        self._num_kept = 1

    def __len__(self) -> int:
        return self._num_kept - 1

    def look_up(self, text: bytes, starts: Array, lengths: Array) -> tuple[Array, Array]:
        """The ids of words, end to end, and how many each word has. After the words, the text must
        have some `PADDING`."""
        self._forget_long_words()
        keys = _keys(text, starts, lengths)
        slots = _slots(keys)
        entries = self._slots.take(slots)
        is_found = np.ones(len(entries), np.bool_)
        for key, known in zip(keys, self._keys, strict=True):
            is_found &= known.values.take(entries) == key
        missed = np.flatnonzero(~is_found)
        if len(missed):
            places = zip(starts[missed].tolist(), lengths[missed].tolist(), strict=True)
            words = [text[start : start + length] for start, length in places]
            others = self._without_slot
            at_words = zip(words, missed.tolist(), strict=True)
            first = {word: at for word, at in at_words if word not in others}
            # Long words last, because the last entries can be forgotten.
            new = sorted(first, key=lambda word: len(word) > _LONGEST)
            at = np.array([first[word] for word in new], np.int64)
            numbers = self._learn(new, [key[at] for key in keys], slots[at])
            entries[missed] = [numbers.get(word) or others[word] for word in words]
        return self._ids_of(entries)

    def _forget_long_words(self) -> None:
        for each in (*self._keys, self._ends):
            each.size = self._num_kept
        self._ids.size = int(self._ends.values[self._num_kept - 1])

    def _learn(self, words: list[bytes], keys: list[Array], slots: Array) -> dict[bytes, int]:
        """Add entries. Returns their numbers."""
        texts = [word.decode("utf-8", "surrogatepass") for word in words]
        encoded = list[Sequence[int]]()
        for first in range(0, len(texts), _WORDS_AT_ONCE):
            encoded += self._encode(texts[first : first + _WORDS_AT_ONCE])
        numbers = np.arange(self._num_kept, self._num_kept + len(words))
        for known, key in zip(self._keys, keys, strict=True):
            known.extend(key)
        self._ends.extend(self._ids.size + np.cumsum([len(ids) for ids in encoded], dtype=np.int64))
        self._ids.extend(list(chain.from_iterable(encoded)))
        sizes = np.array([len(word) for word in words])
        is_kept = sizes <= _LONGEST
        self._num_kept += int(np.count_nonzero(is_kept))
        free = np.flatnonzero(is_kept & (sizes <= _WIDTH) & (self._slots[slots] == 0))
        self._slots[slots[free[::-1]]] = numbers[free[::-1]]  # of several, the first gets it
        has_none = is_kept & (self._slots[slots] != numbers)
        found = dict(zip(words, numbers.tolist(), strict=True))
        self._without_slot |= {words[n]: found[words[n]] for n in np.flatnonzero(has_none)}
        return found

    def _ids_of(self, entries: Array) -> tuple[Array, Array]:
        ends = self._ends.values
        last = ends.take(entries)
        counts = last - ends.take(np.maximum(entries - 1, 0))
        # From the place of an id among all ids to its place in the table.
        shift = np.repeat(last - np.cumsum(counts), counts)
        return self._ids.values.take(shift + np.arange(len(shift))), counts


class _Growing:
    """An array to which values are appended; it becomes twice as large when it is full."""

    def __init__(self, dtype: npt.DTypeLike, values: Sequence[int] = ()) -> None:
        self.values, self.size = np.zeros(1024, dtype), 0
        self.extend(values)

    def extend(self, values: Array | Sequence[int]) -> None:
        end = self.size + len(values)
        if end > len(self.values):
            self.values = np.concatenate([self.values, np.zeros(end, self.values.dtype)])
        self.values[self.size : end] = values
        self.size = end


def _keys(text: bytes, starts: Array, lengths: Array) -> list[Array]:
    """Three numbers for each word: its bytes, and its length in the last of them. A longer word
    than `_WIDTH` has a length that is in no table."""
    everywhere: Array = np.ndarray((len(text) - 7,), "<u8", text, strides=(1,))  # at each byte
    shown = np.minimum(lengths, _WIDTH)
    found = [everywhere[starts + 8 * at] & _MASKS[at].take(shown) for at in range(3)]
    found[2] |= np.minimum(lengths, 255).astype(np.uint64) << np.uint64(56)
    return found


def _slots(keys: list[Array]) -> Array:
    mixed: Any = sum(key * np.uint64(factor) for key, factor in zip(keys, _FACTORS, strict=True))
    mixed = (mixed ^ mixed >> np.uint64(29)) * _LAST_FACTOR
    return np.asarray(mixed >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
