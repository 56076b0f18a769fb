"""Sentence pairs for translation: read, cleaned, and split.

    fra.tsv  →  Pair("Go.", "Va !", "fra.tsv:1"), …  →  cleaned pairs
             →  training | validation, with no source in both

Parallel corpora contain many useless pairs: untranslated sentences, misaligned pairs, duplicates.
They are left out of training, and a note reports the number and the first place of each kind. The
held-out set is random, but depends only on the source sentences and the seed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from glassformer.config import Config, StringTuple
from glassformer.data.pair_files import Pair, PairReader
from glassformer.data.rows import Array, DiskList, Mask
from glassformer.data.split import Groups, Keys, among, choose, content_key
from glassformer.data.text_files import check_encoding, collecting
from glassformer.errors import GlassformerError, UsageError
from glassformer.text.tokenizer_training import num_bytes
from glassformer.wording import counted

# --- facts about pairs ---
#
#     Pair, Pair, …  →  keys, flags, sizes  →  kept | left out, with a note
#
# The pairs themselves are in a list on disk. Everything is decided on arrays with a few bytes per
# pair, since there may be millions of them.

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
    """The facts about each pair: whether it is usable, the keys of its content, and its size."""

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
    def remaining(self) -> Array:
        """The numbers of the pairs that remain."""
        return self._is_kept.nonzero()[0]

    def leave_out(self, is_bad: Array, why: str) -> None:
        bad = is_bad & self._is_kept
        if count := int(bad.sum()):
            first = self._pairs[int(bad.argmax())].place
            self._notes.append(f"left out: {counted(count, 'pair')} {why} (first: {first})")
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
        _, firsts = np.unique(facts["pair"][self.remaining], return_index=True)
        is_repeated = np.ones(len(facts), dtype=bool)
        is_repeated[self.remaining[firsts]] = False
        self.leave_out(is_repeated, "identical to an earlier one")

    def _leave_out_rare(self, is_bad: Array, why: str, most: float) -> None:
        """Leave pairs out, unless more than this share: then they are what the data is about."""
        count, total = int((is_bad & self._is_kept).sum()), int(self._is_kept.sum())
        if count > most * total:
            self._notes.append(f"kept: {count:,} of {counted(total, 'pair')} {why}")
        else:
            self.leave_out(is_bad, why)


def hold_out_pairs(keys: Keys, wanted: int) -> Mask:
    """Select held-out pairs: at most `wanted` unless all sources have more, and none with the
    same source as another. At least one source is left for training."""
    groups = Groups.of(keys)
    selection = [*choose(np.arange(len(groups)), groups.sizes, wanted, wanted)]
    return groups.mask(selection[:-1] if len(selection) == len(groups) else selection)


# --- the split of pairs ---

MOST_HELD_OUT = 1_000  # pairs; more would make validation slow and hardly more precise


class PairFiles(NamedTuple):
    """Files with both sides, or a file for each side."""

    both: Sequence[str]
    source: Sequence[str]
    target: Sequence[str]


class PairsConfig(Config):
    """The sentence pairs to train on, and those to validate on."""

    paths: StringTuple = ()
    """Files, or Hugging Face datasets (`namespace/name:config@split`), that contain both sides."""
    source_paths: StringTuple = ()
    """Alternatively a file for each side, with one sentence per line: the source side."""
    target_paths: StringTuple = ()
    """The target side of `source_paths`, in the same order."""
    validation_paths: StringTuple = ()
    """Separate validation pairs (empty: a part of the others is held out)."""
    validation_source_paths: StringTuple = ()
    validation_target_paths: StringTuple = ()
    source_column: str | None = None
    """The column of a table, the key in a column of translations, or the language of a .tmx (null:
    detected by name and content)."""
    target_column: str | None = None
    reverse: bool = False
    """Translate from target to source."""
    encoding: str = "utf-8"
    """Encoding of text files; not used for Parquet, TMX and the hub."""
    validation_fraction: float = Field(0.05, gt=0, lt=0.5)
    """The fraction to hold out without validation data; at most 1,000 pairs."""
    max_length_ratio: float | None = Field(None, ge=1)
    """Pairs whose sides differ more in their number of words are left out of training (null: 4,
    unless this would leave out more than a fifth of the pairs)."""

    @model_validator(mode="after")
    def _has_both_sides(self) -> "PairsConfig":
        problem = _problem(self.files, ("--data", "--source", "--target"))
        if not problem and self.validation_names:
            options = ("--validation-data", "--valid-source", "--valid-target")
            problem = _problem(self.validation_files, options)
        if self.reverse and self.source_paths:
            problem = (
                "to reverse the direction, swap --source and --target instead of passing --reverse"
            )
        if problem:
            raise ValueError(problem)
        return self

    @property
    def files(self) -> PairFiles:
        return PairFiles(self.paths, self.source_paths, self.target_paths)

    @property
    def validation_files(self) -> PairFiles:
        sides = self.validation_source_paths, self.validation_target_paths
        return PairFiles(self.validation_paths, *sides)

    @property
    def names(self) -> tuple[str, ...]:
        """All files to train on."""
        return tuple(chain(*self.files))

    @property
    def validation_names(self) -> tuple[str, ...]:
        return tuple(chain(*self.validation_files))


@dataclass(frozen=True, slots=True)
class PairSplit:
    """Two parts without a common source, what was held out, in words, and notes."""

    training: Sequence[Pair]
    validation: Sequence[Pair]
    held_out: str
    notes: list[str]
    columns: tuple[str, str] | None
    """The source and target columns of the files, before reversing; None without columns."""
    num_bytes: int
    """Size of the training part in UTF-8."""


def read_pairs(config: PairsConfig, seed: int, folder: Path) -> PairSplit:
    """All usable pairs, split as the config says. They are kept in a file in `folder`."""
    reader = PairReader(config.source_column, config.target_column, config.encoding)
    with collecting() as happened:
        pairs, facts = _stored(reader, config, config.files, seed, folder)
    reader.notes[:0] = happened.notes()
    cleaner = Cleaner(pairs, facts, reader.notes)
    cleaner.leave_out_unusable(config.max_length_ratio)
    usable = cleaner.remaining
    if len(usable) < 2:
        remarks = "".join(f" {note[:1].upper()}{note[1:]}." for note in reader.notes)
        raise GlassformerError(
            f"{', '.join(config.names)} has {counted(len(usable), 'usable pair')}. "
            f"Provide at least 2.{remarks}"
        )
    columns, keys = reader.columns, facts["source"][usable]
    validation: Sequence[Pair]
    if not config.validation_names:
        if (keys == keys[0]).all():
            raise GlassformerError(
                f"{', '.join(config.names)}: all pairs have the same source, so none can be held "
                "out for validation. Provide more pairs, or separate validation pairs "
                "(--validation-data, or --valid-source and --valid-target)."
            )
        wanted = max(1, min(MOST_HELD_OUT, round(config.validation_fraction * len(keys))))
        is_held_out = hold_out_pairs(keys, wanted)
        if near := len(np.unique(facts["spelled"][usable])) - len(np.unique(keys)):
            reader.notes.append(
                f"{counted(near, 'source')} {'differs' if near == 1 else 'differ'} from another "
                "only in case, whitespace or Unicode normalization; such pairs are kept, on the "
                "same side of the split"
            )
        training, validation = usable[~is_held_out], pairs.take(usable[is_held_out])
        description = f"{len(validation):,} of {counted(len(usable), 'pair')}, a random sample"
    else:
        training, (validation, validated) = usable, _validation(reader, config, seed, folder)
        if (both := among(keys, validated)).any():  # they are kept
            reader.notes.append(
                f"training data: {counted(int(both.sum()), 'pair')} with a source in the "
                f"validation data (first: {pairs[int(usable[both.argmax()])].place})"
            )
        description = f"all of {', '.join(config.validation_names)}"
    return PairSplit(
        training=pairs.take(training),
        validation=validation,
        held_out=description,
        notes=reader.notes,
        columns=columns,
        num_bytes=int(facts["size"][training].sum(dtype=np.int64)),
    )


def _stored(
    reader: PairReader, config: PairsConfig, files: PairFiles, seed: int, folder: Path
) -> tuple[DiskList[Pair], PairFacts]:
    """The pairs of files, which are read once, and what is known of them."""
    pairs, facts = DiskList(folder, Pair), PairFacts(seed, config.max_length_ratio or USUAL_RATIO)
    for pair in _read(reader, files, config.reverse):
        pairs.append(pair)
        facts.add(pair)
    return pairs, facts


def _validation(
    reader: PairReader, config: PairsConfig, seed: int, folder: Path
) -> tuple[Sequence[Pair], Array]:
    """The pairs of separate validation data, and the keys of their sources."""
    with collecting() as happened:
        pairs, facts = _stored(reader, config, config.validation_files, seed, folder)
    reader.notes += happened.notes()
    cleaner = Cleaner(pairs, facts, reader.notes)
    cleaner.leave_out(facts.has(BLANK), "in the validation data with an empty side")
    if not len(cleaner.remaining):
        where = ", ".join(config.validation_names)
        raise GlassformerError(f"{where} has no pair with both sides. Provide validation pairs.")
    return pairs.take(cleaner.remaining), facts["source"][cleaner.remaining]


def pairs_of(
    paths: Sequence[str] = (),
    source_paths: Sequence[str] = (),
    target_paths: Sequence[str] = (),
    source_column: str | None = None,
    target_column: str | None = None,
    encoding: str = "utf-8",
    reverse: bool = False,
    preferred: tuple[str | None, str | None] = (None, None),
    notes: list[str] | None = None,
) -> list[Pair]:
    """All pairs of files, for evaluation; nothing is left out. The preferred columns are used if
    the files have them. What to know about the files is added to `notes`."""
    files = PairFiles(paths, source_paths, target_paths)
    if problem := _problem(files, ("--data", "--source", "--target")):
        raise UsageError(f"{problem}.")
    reader = PairReader(source_column, target_column, encoding)
    if not (source_column or target_column):
        reader = PairReader(*preferred, encoding, is_strict=False)
    with collecting() as happened:
        pairs = list(_read(reader, files, reverse))
    if notes is not None:
        notes += [*happened.notes(), *reader.notes]
        if blank := [pair for pair in pairs if not (pair.source and pair.target)]:
            count = counted(len(blank), "pair")
            notes.append(f"scored as is: {count} with an empty side (first: {blank[0].place})")
    return pairs


def _problem(files: PairFiles, options: tuple[str, str, str]) -> str | None:
    """The problem with a choice of files, or None."""
    both, source, target = options
    if files.both and (files.source or files.target):
        return (
            f"{both} is for files with both sides, {source} and {target} are for files with one "
            "side each: pass one or the other"
        )
    if not any(files):
        return (
            f"no sentence pairs were given: pass {both} for files with both sides, or {source} and "
            f"{target} for files with one side each"
        )
    if bool(files.source) != bool(files.target):
        named, absent = (source, target) if files.source else (target, source)
        return f"{named} is given without {absent}: pass a file for each side"
    if len(files.source) != len(files.target):
        return (
            f"{source} names {counted(len(files.source), 'file')} and {target} "
            f"{len(files.target)}: pass the same number of files, in the same order, for both"
        )
    return None


def _read(reader: PairReader, files: PairFiles, reverse: bool) -> Iterator[Pair]:
    check_encoding(reader.encoding)
    sides = zip(files.source, files.target, strict=True)
    pairs = chain(
        chain.from_iterable(map(reader.read, files.both)),
        chain.from_iterable(reader.read_sides(*paths) for paths in sides),
    )
    for pair in pairs:
        yield Pair(pair.target, pair.source, pair.place) if reverse else pair
