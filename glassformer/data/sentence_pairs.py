"""Sentence pairs for translation: read, cleaned, and split.

    fra.tsv  →  Pair("Go.", "Va !", "fra.tsv:1"), …  →  cleaned pairs
             →  training | validation, with no source in both

Parallel corpora contain many useless pairs: untranslated sentences, misaligned pairs, duplicates.
They are left out of training, and a note reports the number and the first place of each kind. The
held-out set is random, but depends only on the source sentences and the seed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from glassformer.config import Config, Names
from glassformer.data.content import among
from glassformer.data.pair_cleaning import BLANK, USUAL_RATIO, Cleaner, PairFacts, held_out
from glassformer.data.pair_files import Pair as Pair
from glassformer.data.pair_files import PairReader
from glassformer.data.reading_report import collecting
from glassformer.data.rows import Array, DiskList
from glassformer.data.text_files import check_encoding
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

MOST_HELD_OUT = 1_000  # pairs; more would make validation slow and hardly more precise


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
    kept = cleaner.kept
    if len(kept) < 2:
        remarks = "".join(f" {note[:1].upper()}{note[1:]}." for note in reader.notes)
        raise GlassformerError(
            f"{', '.join(config.names)} has {counted(len(kept), 'usable pair')}. "
            f"Provide at least 2.{remarks}"
        )
    columns, keys = reader.chosen, facts["source"][kept]
    validation: Sequence[Pair]
    if not config.validation_names:
        if (keys == keys[0]).all():
            raise GlassformerError(
                f"{', '.join(config.names)}: all pairs have the same source, so none can be held "
                "out for validation. Provide more pairs, or separate validation pairs "
                "(--validation-data, or --valid-source and --valid-target)."
            )
        wanted = max(1, min(MOST_HELD_OUT, round(config.validation_fraction * len(keys))))
        is_held_out = held_out(keys, wanted)
        if near := len(np.unique(facts["spelled"][kept])) - len(np.unique(keys)):
            reader.notes.append(
                f"{counted(near, 'source')} {'differs' if near == 1 else 'differ'} from another "
                "only in case, whitespace or Unicode normalization; such pairs are kept, on the "
                "same side of the split"
            )
        training, validation = kept[~is_held_out], pairs.take(kept[is_held_out])
        described = f"{len(validation):,} of {counted(len(kept), 'pair')}, a random sample"
    else:
        training, (validation, validated) = kept, _validation(reader, config, seed, folder)
        if (both := among(keys, validated)).any():  # they are kept
            reader.notes.append(
                f"training data: {counted(int(both.sum()), 'pair')} with a source in the "
                f"validation data (first: {pairs[int(kept[both.argmax()])].place})"
            )
        described = f"all of {', '.join(config.validation_names)}"
    return PairSplit(
        training=pairs.take(training),
        validation=validation,
        held_out=described,
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
    if not len(cleaner.kept):
        where = ", ".join(config.validation_names)
        raise GlassformerError(f"{where} has no pair with both sides. Provide validation pairs.")
    return pairs.take(cleaner.kept), facts["source"][cleaner.kept]


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
        found = list(_read(reader, files, reverse))
    if notes is not None:
        notes += [*happened.notes(), *reader.notes]
        if blank := [pair for pair in found if not (pair.source and pair.target)]:
            number = counted(len(blank), "pair")
            notes.append(f"scored as is: {number} with an empty side (first: {blank[0].place})")
    return found


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
        given, absent = (source, target) if files.source else (target, source)
        return f"{given} is given without {absent}: pass a file for each side"
    if len(files.source) != len(files.target):
        return (
            f"{source} names {counted(len(files.source), 'file')} and {target} "
            f"{len(files.target)}: pass the same number of files, in the same order, for both"
        )
    return None


def _read(reader: PairReader, files: PairFiles, reverse: bool) -> Iterator[Pair]:
    check_encoding(reader.encoding)
    sides = zip(files.source, files.target, strict=True)
    found = chain(
        chain.from_iterable(map(reader.read, files.both)),
        chain.from_iterable(reader.read_sides(*paths) for paths in sides),
    )
    for pair in found:
        yield Pair(pair.target, pair.source, pair.place) if reverse else pair
