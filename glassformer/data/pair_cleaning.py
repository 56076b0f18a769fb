"""Which sentence pairs can be learned from, and which are held out.

    Pair, Pair, …  →  keys, flags, sizes  →  kept | left out, with a note  →  training | validation

Everything is decided on arrays with a few bytes per pair, since there may be millions of them.
"""

import re
from collections.abc import Sequence
from struct import Struct

import numpy as np

from glassformer.data.content import content_key
from glassformer.data.pair_files import Pair
from glassformer.data.rows import Array, Mask
from glassformer.data.split import Groups, Keys, choose
from glassformer.text.tokenizer_sample import num_bytes
from glassformer.wording import counted

USUAL_RATIO = 4.0  # of the lengths of two sides, above which they hardly belong together
SHORT = 8  # words; short sides may well differ in length by a factor of four
BLANK, COPY, UNEVEN = 1, 2, 4

# Words end at whitespace. In scripts without it, a Han character or a kana counts as a word, and so
# do four letters of Thai, Lao, Burmese or Khmer: else pairs with Chinese would seem misaligned.
_SIGNS = r"\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[{_SIGNS}]|[{_LETTERS}]{{1,4}}|[^\s{_SIGNS}{_LETTERS}]+")
_SIGNS_TOGETHER, _LETTER = re.compile(f"[{_SIGNS}]+"), re.compile(f"[{_LETTERS}]")


# In memory: 29 bytes per pair.
_FACTS = np.dtype(
    [
        ("source", "<u8"),  # equal up to case, blanks and Unicode form; the order is random
        ("spelled", "<i8"),  # equal for sources that are written in the same way
        ("pair", "<i8"),  # equal if both sides are
        ("size", "<u4"),  # bytes of both sides in UTF-8
        ("flags", "u1"),
    ]
)
_RECORD = Struct("<QqqIB")


class PairFacts:
    """What is known of each pair: whether it is usable, what it is equal to, and its size."""

    def __init__(self, seed: int, max_length_ratio: float) -> None:
        self._seed, self._ratio = seed, max_length_ratio
        self._records = bytearray()

    def add(self, pair: Pair) -> None:
        source, target, _ = pair
        sizes = num_bytes(source), num_bytes(target)
        size = min(2**32 - 1, sum(sizes))
        flags = BLANK
        if source and target:
            is_uneven = self._may_be_uneven(pair, sizes) and self._is_uneven(pair)
            flags = COPY * (source == target) | UNEVEN * is_uneven
        key = content_key(source, seed=self._seed)
        # Python's own hash differs between processes, but only equality matters here.
        self._records += _RECORD.pack(key, hash(source), hash((source, target)), size, flags)

    def _may_be_uneven(self, pair: Pair, sizes: tuple[int, int]) -> bool:
        """A quick answer, which is right if it is no: the words of a side are at least those
        between blanks. Each sign or letter of a script without blanks, which has three bytes or
        more, makes at most two words more."""
        least = [side.count(" ") + 1 for side in pair[:2]]
        most = [
            words + size - len(side)
            for words, size, side in zip(least, sizes, pair[:2], strict=True)
        ]
        return max(most) > SHORT and max(most) / min(least) > self._ratio

    def _is_uneven(self, pair: Pair) -> bool:
        shorter, longer = sorted((_num_words(pair.source), _num_words(pair.target)))
        return longer > SHORT and longer / shorter > self._ratio

    def __len__(self) -> int:
        return len(self._records) // _RECORD.size

    def __getitem__(self, name: str) -> Array:
        return np.frombuffer(self._records, _FACTS)[name]

    def has(self, flag: int) -> Array:
        return self["flags"] & flag > 0


def _num_words(line: str) -> int:
    if line.isascii():
        return line.count(" ") + 1  # each run of whitespace is one space
    rest, num_runs = _SIGNS_TOGETHER.subn(" ", line)
    if _LETTER.search(rest):
        return len(_WORD.findall(line))
    # The same, but faster: every sign is a word, and so is what remains between blanks.
    return len(line) - len(rest) + num_runs + len(rest.split()) if num_runs else line.count(" ") + 1


# --- cleaning ---


class Cleaner:
    """Leaves out pairs, and notes how many and the first of each kind."""

    def __init__(self, pairs: Sequence[Pair], facts: PairFacts, notes: list[str]) -> None:
        self._pairs, self._facts, self._notes = pairs, facts, notes
        self._is_kept = np.ones(len(facts), dtype=bool)

    @property
    def kept(self) -> Array:
        """The numbers of the pairs that remain."""
        return self._is_kept.nonzero()[0]

    def leave_out(self, is_bad: Array, why: str) -> None:
        bad = is_bad & self._is_kept
        if number := int(bad.sum()):
            first = self._pairs[int(bad.argmax())].place
            self._notes.append(f"left out: {counted(number, 'pair')} {why} (first: {first})")
            self._is_kept &= ~bad

    def leave_out_unusable(self, max_length_ratio: float | None) -> None:
        """Pairs from which nothing can be learned. Without a ratio, the usual one is the limit, if
        it suits the data."""
        facts = self._facts
        self.leave_out(facts.has(BLANK), "with an empty side")
        # If there are more copies, copying is the task.
        self._leave_out_rare(facts.has(COPY), "with both sides equal", 1 / 2)
        # Misaligned pairs are few. If a fifth of the sides differ in length, all are meant to.
        ratio = max_length_ratio or USUAL_RATIO
        why = f"with one side more than {ratio:g} times as long as the other"
        self._leave_out_rare(facts.has(UNEVEN), why, 1 / 5 if max_length_ratio is None else 1)
        _, firsts = np.unique(facts["pair"][self.kept], return_index=True)
        is_repeated = np.ones(len(facts), dtype=bool)
        is_repeated[self.kept[firsts]] = False
        self.leave_out(is_repeated, "identical to an earlier one")

    def _leave_out_rare(self, is_bad: Array, why: str, most: float) -> None:
        """Leave pairs out, unless more than this share: then they are what the data is about."""
        number, total = int((is_bad & self._is_kept).sum()), int(self._is_kept.sum())
        if number > most * total:
            self._notes.append(f"kept: {number:,} of {counted(total, 'pair')} {why}")
        else:
            self.leave_out(is_bad, why)


# --- splitting ---


def held_out(keys: Keys, wanted: int) -> Mask:
    """Which pairs are held out: at most so many unless all sources have more, and none with the
    same source as another. At least one source is left for training."""
    groups = Groups.of(keys)
    chosen = [*choose(np.arange(len(groups)), groups.sizes, wanted, wanted)]
    return groups.mask(chosen[:-1] if len(chosen) == len(groups) else chosen)
