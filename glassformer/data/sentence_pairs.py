"""Sentence pairs for translation: read, cleaned, and split.

    fra.tsv  →  Pair("Go.", "Va !", "fra.tsv:1"), …  →  cleaned pairs
             →  training | validation, with no source in both

Parallel corpora contain many useless pairs: untranslated sentences, misaligned pairs, duplicates.
They are left out of training, and a note reports the number and the first place of each kind. The
held-out set is random, but depends only on the source sentences and the seed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from pydantic import Field, model_validator

from glassformer.config import Config, Names
from glassformer.data.pair_files import Pair, PairReader
from glassformer.data.splits import hold_out
from glassformer.data.text_files import check_encoding
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

__all__ = ["Pair", "PairSplit", "PairsConfig", "pairs_of", "read_pairs"]

MOST_HELD_OUT = 1_000  # pairs; more would make validation slow and hardly more precise
SHORT = 8  # words; short sides may well differ in length by a factor of four

# Words end at whitespace. In scripts without it, a Han character or a kana counts as a word, and so
# do four letters of Thai, Lao, Burmese or Khmer: else pairs with Chinese would seem misaligned.
_SIGNS = r"\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[{_SIGNS}]|[{_LETTERS}]{{1,4}}|[^\s{_SIGNS}{_LETTERS}]+")


class PairFiles(NamedTuple):
    """Files with both sides, or a file for each side."""

    both: Sequence[str]
    source: Sequence[str]
    target: Sequence[str]


class PairsConfig(Config):
    """The sentence pairs to train on, and those to validate on."""

    paths: Names = ()
    """Files, or Hugging Face datasets (`namespace/name:config@split`), that contain both sides."""
    source_paths: Names = ()
    """Alternatively a file for each side, with one sentence per line: the source side."""
    target_paths: Names = ()
    """The target side of `source_paths`, in the same order."""
    validation_paths: Names = ()
    """Separate validation pairs (empty: a part of the others is held out)."""
    validation_source_paths: Names = ()
    validation_target_paths: Names = ()
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
    max_length_ratio: float = Field(4.0, ge=1)
    """Pairs whose sides differ more in their number of words are left out of training."""

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

    training: list[Pair]
    validation: list[Pair]
    held_out: str
    notes: list[str]
    columns: tuple[str, str] | None
    """The source and target columns of the files, before reversing; None without columns."""


def read_pairs(config: PairsConfig, seed: int) -> PairSplit:
    """All usable pairs, split as the config says."""
    reader = PairReader(config.source_column, config.target_column, config.encoding)
    found = _read(reader, config.files, config.reverse)
    training = _cleaned(found, config.max_length_ratio, reader.notes)
    if len(training) < 2:
        remarks = "".join(f" {note[:1].upper()}{note[1:]}." for note in reader.notes)
        raise GlassformerError(
            f"{', '.join(config.names)} has {counted(len(training), 'usable pair')}. "
            f"Provide at least 2.{remarks}"
        )
    if not config.validation_names:
        return _held_out(training, config, seed, reader)
    columns = reader.chosen
    found = _read(reader, config.validation_files, config.reverse)
    why = "in the validation data with an empty side"
    validation = _without(found, list(map(_is_blank, found)), why, reader.notes)
    where = ", ".join(config.validation_names)
    if not validation:
        raise GlassformerError(f"{where} has no pair with both sides. Provide validation pairs.")
    validated = {pair.source for pair in validation}
    if both := [pair for pair in training if pair.source in validated]:  # they are kept
        number, first = counted(len(both), "pair"), both[0].place
        note = f"in training: {number} with a source in the validation data (first: {first})"
        reader.notes.append(note)
    return PairSplit(training, validation, f"all of {where}", reader.notes, columns)


def pairs_of(
    paths: Sequence[str] = (),
    source_paths: Sequence[str] = (),
    target_paths: Sequence[str] = (),
    source_column: str | None = None,
    target_column: str | None = None,
    encoding: str = "utf-8",
    reverse: bool = False,
    preferred: tuple[str | None, str | None] = (None, None),
) -> list[Pair]:
    """All pairs of files, for evaluation; nothing is left out. The preferred columns are used if
    the files have them."""
    files = PairFiles(paths, source_paths, target_paths)
    if problem := _problem(files, ("--data", "--source", "--target")):
        raise UsageError(f"{problem}.")
    reader = PairReader(source_column, target_column, encoding)
    if not (source_column or target_column):
        reader = PairReader(*preferred, encoding, is_strict=False)
    return _read(reader, files, reverse)


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
            f"no sentence pairs are given: pass {both} for files with both sides, or {source} and "
            f"{target} for files with one side each"
        )
    if bool(files.source) != bool(files.target):
        given, absent = (source, target) if files.source else (target, source)
        return f"{given} is given without {absent}: pass a file for each side"
    if len(files.source) != len(files.target):
        return (
            f"{source} names {counted(len(files.source), 'file')} and {target} "
            f"{len(files.target)}: pass the same number of files, in the same order, for both"
        )
    return None


def _read(reader: PairReader, files: PairFiles, reverse: bool) -> list[Pair]:
    check_encoding(reader.encoding)
    found = [pair for name in files.both for pair in reader.read(name)]
    for source, target in zip(files.source, files.target, strict=True):
        found += reader.read_sides(source, target)
    if reverse:
        return [Pair(pair.target, pair.source, pair.place) for pair in found]
    return found


# --- cleaning ---


def _cleaned(pairs: list[Pair], max_length_ratio: float, notes: list[str]) -> list[Pair]:
    """The usable pairs; what is left out is added to `notes`."""
    pairs = _without(pairs, list(map(_is_blank, pairs)), "with an empty side", notes)
    is_copy = [pair.source == pair.target for pair in pairs]
    if 2 * sum(is_copy) > len(pairs):  # then copying is the task
        number = f"{sum(is_copy):,} of {counted(len(pairs), 'pair')}"
        notes.append(f"kept: {number} with both sides equal")
    else:
        pairs = _without(pairs, is_copy, "with both sides equal", notes)
    is_uneven = [_length_ratio(pair) > max_length_ratio for pair in pairs]
    why = f"with one side more than {max_length_ratio:g} times as long as the other"
    pairs = _without(pairs, is_uneven, why, notes)
    first = {(pair.source, pair.target): pair for pair in reversed(pairs)}
    is_repeated = [first[pair.source, pair.target] is not pair for pair in pairs]
    return _without(pairs, is_repeated, "identical to an earlier one", notes)


def _without(pairs: list[Pair], is_bad: list[bool], why: str, notes: list[str]) -> list[Pair]:
    if any(is_bad):
        first = pairs[is_bad.index(True)].place
        notes.append(f"left out: {counted(sum(is_bad), 'pair')} {why} (first: {first})")
    return [pair for pair, is_left_out in zip(pairs, is_bad, strict=True) if not is_left_out]


def _is_blank(pair: Pair) -> bool:
    return not (pair.source and pair.target)


def _length_ratio(pair: Pair) -> float:
    shorter, longer = sorted(len(_WORD.findall(side)) for side in (pair.source, pair.target))
    return longer / shorter if longer > SHORT else 1.0


def _held_out(pairs: list[Pair], config: PairsConfig, seed: int, reader: PairReader) -> PairSplit:
    fraction = min(config.validation_fraction, MOST_HELD_OUT / len(pairs))
    sources = (pair.source.encode("utf-8", "surrogatepass") for pair in pairs)
    no_labels: list[tuple[str, ...]] = [()] * len(pairs)
    chosen = hold_out(sources, no_labels, fraction, seed, slack=1.0)
    if not chosen:
        raise GlassformerError(
            f"{', '.join(config.names)}: all pairs have the same source, so none can be held out "
            "for validation. Provide more pairs, or separate validation pairs (--validation-data, "
            "or --valid-source and --valid-target)."
        )
    return PairSplit(
        training=[pair for index, pair in enumerate(pairs) if index not in chosen],
        validation=[pair for index, pair in enumerate(pairs) if index in chosen],
        held_out=f"{len(chosen):,} of {counted(len(pairs), 'pair')}, a random sample",
        notes=reader.notes,
        columns=reader.chosen,
    )
