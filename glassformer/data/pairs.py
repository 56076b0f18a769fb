"""Sentence pairs to learn translation from: read, cleaned, and split.

    fra.tsv  →  Pair("Go.", "Va !", "fra.tsv:1"), …  →  without what cannot be learnt from
             →  training | validation, with no source in both

Collections of translations are full of lines that teach nothing or the wrong thing: sentences that
nobody translated, pairs that slipped out of line, the same pair a hundred times. They are left out
of training, and each kind is said with its number and its first place. The lot that decides what
is held out is drawn from the source sentence and the seed alone.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field, model_validator

from glassformer.config import Names
from glassformer.data.corpus import DataConfig
from glassformer.data.pair_files import Pair, PairReader
from glassformer.data.splits import hold_out
from glassformer.data.tables import check_encoding
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

__all__ = ["Pair", "PairSplit", "PairsConfig", "pairs_of", "read_pairs"]

MOST_HELD_OUT = 1_000  # pairs; more would make a validation slow, and hardly surer
SHORT = 8  # words; a side this short may well be four times as long as the other

# A word ends at a blank. Where a script has none, a Han sign or a kana counts as a word, and so do
# four letters of Thai, Lao, Burmese or Khmer: else every pair with Chinese would seem out of line.
_SIGNS = r"\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_LETTERS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_WORD = re.compile(rf"[{_SIGNS}]|[{_LETTERS}]{{1,4}}|[^\s{_SIGNS}{_LETTERS}]+")


class PairsConfig(DataConfig):
    """Which sentence pairs to train on, and which to validate on."""

    paths: Names = ()
    """Files, or data sets of the Hugging Face hub (`namespace/name:config@split`), that hold both
    sides."""
    source_paths: Names = ()
    """Or a file for each side, a sentence on each line: these to translate from …"""
    target_paths: Names = ()
    """… and these to translate to, in the same order."""
    validation_paths: Names = ()
    """Pairs of their own for validation; empty: a part of the others is held out."""
    validation_source_paths: Names = ()
    validation_target_paths: Names = ()
    source_column: str | None = None
    """The column of a table, the key in a column of translations, or the language of a .tmx;
    null: the one that plainly is."""
    target_column: str | None = None
    reverse: bool = False
    """Translate from target to source."""
    encoding: str = "utf-8"
    """How the characters of text files are stored; Parquet, TMX and the hub need no telling."""
    validation_fraction: float = Field(0.05, gt=0, lt=0.5)
    """How much is held out when no validation is given; never more than 1,000 pairs."""
    max_length_ratio: float = Field(4.0, ge=1)
    """Of the words of the two sides; pairs beyond are left out of training."""

    @model_validator(mode="after")
    def _has_both_sides(self) -> "PairsConfig":
        options = ("--data", "--source", "--target")
        problem = _problem(self.paths, self.source_paths, self.target_paths, options)
        if not problem and self.has_validation:
            options = ("--validation-data", "--valid-source", "--valid-target")
            problem = _problem(
                self.validation_paths,
                self.validation_source_paths,
                self.validation_target_paths,
                options,
            )
        if self.reverse and self.source_paths:
            problem = "to translate the other way, swap --source and --target: leave out --reverse"
        if problem:
            raise ValueError(problem)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """All files to learn from."""
        return (*self.paths, *self.source_paths, *self.target_paths)

    @property
    def validation_names(self) -> tuple[str, ...]:
        return (
            *self.validation_paths,
            *self.validation_source_paths,
            *self.validation_target_paths,
        )

    @property
    def has_validation(self) -> bool:
        return bool(self.validation_names)


@dataclass(frozen=True, slots=True)
class PairSplit:
    """Two parts without a source in common, what was held out in words, and remarks."""

    training: list[Pair]
    validation: list[Pair]
    held_out: str
    notes: list[str]
    columns: tuple[str, str] | None
    """Those of source and target in the files, before they were reversed; None: there are none."""


def read_pairs(config: PairsConfig, seed: int) -> PairSplit:
    """All pairs that can be learnt from, split as the config says."""
    reader = PairReader(config.source_column, config.target_column, config.encoding)
    sides = config.paths, config.source_paths, config.target_paths
    found = _read(reader, *sides, reverse=config.reverse)
    training = _cleaned(found, config.max_length_ratio, reader.notes)
    if len(training) < 2:
        remarks = "".join(f" {note[:1].upper()}{note[1:]}." for note in reader.notes)
        raise GlassformerError(
            f"{', '.join(config.names)} has {counted(len(training), 'pair')} to learn from. "
            f"Give at least 2.{remarks}"
        )
    if not config.has_validation:
        return _held_out(training, config, seed, reader)
    columns = reader.chosen
    sides = (
        config.validation_paths,
        config.validation_source_paths,
        config.validation_target_paths,
    )
    validation = _read(reader, *sides, reverse=config.reverse)
    validation = _without(_is_blank, validation, "of validation with an empty side", reader.notes)
    where = ", ".join(config.validation_names)
    if not validation:
        raise GlassformerError(f"{where} has no pair with two sides. Give some to validate on.")
    reader.notes += _seen_in_both(training, validation)
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
    """The pairs of files as they stand, with nothing left out: to evaluate on. The columns that are
    preferred need not be there."""
    problem = _problem(paths, source_paths, target_paths, ("--data", "--source", "--target"))
    if problem:
        raise UsageError(f"{problem}.")
    reader = PairReader(source_column, target_column, encoding)
    if not (source_column or target_column):
        reader = PairReader(*preferred, encoding, is_strict=False)
    return _read(reader, paths, source_paths, target_paths, reverse=reverse)


def _problem(
    paths: Sequence[str],
    sources: Sequence[str],
    targets: Sequence[str],
    options: tuple[str, str, str],
) -> str | None:
    """What is wrong with a choice of files, or None."""
    both, source, target = options
    if paths and (sources or targets):
        return (
            f"{both} is for files with both sides, {source} and {target} for files with one side "
            "each: give one or the other"
        )
    if not (paths or sources or targets):
        return (
            f"no sentence pairs are given: say {both} for files with both sides, or {source} and "
            f"{target} for files with one side each"
        )
    if not sources and targets:
        return f"{target} is given without {source}: give a file for each side"
    if sources and not targets:
        return f"{source} is given without {target}: give a file for each side"
    if len(sources) != len(targets):
        return (
            f"{source} names {counted(len(sources), 'file')} and {target} {len(targets)}: give "
            "as many of one as of the other, in the same order"
        )
    return None


def _read(
    reader: PairReader,
    paths: Sequence[str],
    sources: Sequence[str],
    targets: Sequence[str],
    reverse: bool,
) -> list[Pair]:
    check_encoding(reader.encoding)
    found = [pair for name in paths for pair in reader.read(name)]
    for source, target in zip(sources, targets, strict=True):
        found += reader.read_sides(source, target)
    if reverse:
        return [Pair(pair.target, pair.source, pair.place) for pair in found]
    return found


# --- cleaning ---


def _cleaned(pairs: list[Pair], max_length_ratio: float, notes: list[str]) -> list[Pair]:
    """The pairs that can be learnt from; `notes` says which are left out."""
    pairs = _without(_is_blank, pairs, "with an empty side", notes)
    copies = sum(map(_is_copy, pairs))
    if 2 * copies > len(pairs):  # to copy is the task, then
        notes.append(f"both sides are equal in {copies:,} of {counted(len(pairs), 'pair')}: kept")
    else:
        pairs = _without(_is_copy, pairs, "with both sides equal", notes)
    why = f"with one side more than {max_length_ratio:g} times as long as the other"
    pairs = _without(lambda pair: _length_ratio(pair) > max_length_ratio, pairs, why, notes)
    seen: set[tuple[str, str]] = set()

    def is_repeated(pair: Pair) -> bool:
        known = len(seen)
        seen.add((pair.source, pair.target))
        return len(seen) == known

    return _without(is_repeated, pairs, "already there", notes)


def _without(
    is_bad: Callable[[Pair], bool], pairs: list[Pair], why: str, notes: list[str]
) -> list[Pair]:
    kept: list[Pair] = []
    bad: list[Pair] = []
    for pair in pairs:
        (bad if is_bad(pair) else kept).append(pair)
    if bad:
        notes.append(f"left out: {counted(len(bad), 'pair')} {why} (first: {bad[0].place})")
    return kept


def _is_blank(pair: Pair) -> bool:
    return not (pair.source and pair.target)


def _is_copy(pair: Pair) -> bool:
    return pair.source == pair.target


def _length_ratio(pair: Pair) -> float:
    shorter, longer = sorted(len(_WORD.findall(side)) for side in (pair.source, pair.target))
    return longer / shorter if longer > SHORT else 1.0


# --- splitting ---


def _held_out(pairs: list[Pair], config: PairsConfig, seed: int, reader: PairReader) -> PairSplit:
    fraction = min(config.validation_fraction, MOST_HELD_OUT / len(pairs))
    sources = (pair.source.encode("utf-8", "surrogatepass") for pair in pairs)
    no_labels: list[tuple[str, ...]] = [()] * len(pairs)
    chosen = hold_out(sources, no_labels, fraction, seed, slack=1.0)
    if not chosen:
        raise GlassformerError(
            f"{', '.join(config.names)}: all pairs have the same source, so that none can be held "
            "out for validation. Give more pairs, or some for validation alone "
            "(--validation-data, or --valid-source and --valid-target)."
        )
    return PairSplit(
        training=[pair for index, pair in enumerate(pairs) if index not in chosen],
        validation=[pair for index, pair in enumerate(pairs) if index in chosen],
        held_out=f"{len(chosen):,} of {counted(len(pairs), 'pair')}, by lot",
        notes=reader.notes,
        columns=reader.chosen,
    )


def _seen_in_both(training: list[Pair], validation: list[Pair]) -> list[str]:
    """A remark on validation that was trained on; the files are left as given."""
    validated = {pair.source for pair in validation}
    both = [pair for pair in training if pair.source in validated]
    if not both:
        return []
    number = counted(len(both), "pair")
    return [f"in training: {number} with a source of validation (first: {both[0].place})"]
