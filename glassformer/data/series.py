"""Sequences of numbers with a label: sensor readings, heartbeats, strokes of a pen.

    id,step,x,y,label
    a,0,0.1,0.2,walk   →  Series([[0.1, 0.2], …], "walk", "walks.csv:2")

Two kinds of file are read: .csv with a row for each step, and .npz with arrays x (N, T, F) or
(N, T), y (N,) and, where the sequences differ in length, lengths (N,).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from glassformer.data.arrays import read_sequences
from glassformer.data.corpus import TEXT_COLUMNS
from glassformer.data.examples import LABEL_COLUMNS, label_name
from glassformer.data.labelled import LabelledConfig, check_classes, check_kinds
from glassformer.data.splits import (
    Items,
    in_order,
    never_learned,
    no_label_in_common,
    seen_before,
    separate,
    stratified,
)
from glassformer.data.tables import (
    Row,
    Table,
    column,
    columns_in_words,
    ending,
    local_path,
    open_table,
    reading,
)
from glassformer.errors import GlassformerError
from glassformer.wording import counted

ID_COLUMNS = ("id", "series", "series_id", "sequence", "sequence_id", "sample", "sample_id")
LABELS = tuple(name for name in LABEL_COLUMNS if name != "y")  # which here is a coordinate
STEP_COLUMNS = ("step", "time", "t", "timestep", "time_step", "timestamp", "frame", "tick")
_LARGEST = float(np.finfo(np.float32).max)
_SAMPLE = 100  # rows that are looked at to tell numbers from text


@dataclass(frozen=True, slots=True)
class Series:
    """A sequence of numbers, its label, and where it came from."""

    values: npt.NDArray[np.float32]
    """(steps, features)"""
    label: str
    """Empty where labels do not matter."""
    source: str


@dataclass(frozen=True, slots=True)
class SeriesSplit:
    """Two disjoint parts of labelled sequences, and the labels that there are to learn."""

    training: list[Series]
    validation: list[Series]
    test: list[Series]
    labels: tuple[str, ...]
    num_features: int
    held_out: str
    notes: list[str]
    columns: list[str]
    """What those of a table were taken for, in words."""


def is_series(
    paths: Iterable[str], label_column: str | None = None, encoding: str = "utf-8"
) -> bool:
    """Whether all of these hold sequences of numbers: .npz, or .csv with id, step and values. A
    label that is missing is told when they are read."""
    names = list(paths)
    return bool(names) and all(_is_series(name, label_column, encoding) for name in names)


def read_series_split(config: LabelledConfig, seed: int) -> SeriesSplit:
    """All sequences, split as the config says."""
    # Read in one go, so that all parts have the same features in the same order.
    kinds = config.paths, config.validation_paths, config.test_paths
    names = [name for paths in kinds for name in paths]
    found = iter(_read(names, config.label_column, config.encoding))
    training, validation, test = (
        _items([series for _ in paths for series in next(found)], paths) for paths in kinds
    )
    check_kinds([(each.label,) for each in training.found], training.where)
    check_classes([(each.label, each.source) for each in training.found])
    if config.validation_paths:
        parts = separate(training, validation)
    else:
        parts = stratified(training, config.validation_fraction, seed)
    labels = in_order(series.label for series in parts.training)
    if test.found and not {each.label for each in test.found} & {*labels}:
        raise no_label_in_common(training, test, "test")
    return SeriesSplit(
        training=parts.training,
        validation=parts.validation,
        test=list(test.found),
        labels=labels,
        num_features=parts.training[0].values.shape[1],
        held_out=parts.held_out,
        notes=parts.notes + never_learned(parts, test) + seen_before(parts, test),
        columns=_columns_of(config),
    )


def read_series(
    paths: Iterable[str],
    label_column: str | None = None,
    encoding: str = "utf-8",
    features: Sequence[str] = (),
) -> list[Series]:
    """The sequences of files, in a fixed order; all have the same features, those that are named if
    any are."""
    found = _read(paths, label_column, encoding, tuple(features))
    return [series for each in found for series in each]


def read_values(
    paths: Iterable[str],
    label_column: str | None = None,
    encoding: str = "utf-8",
    features: Sequence[str] = (),
) -> list[Series]:
    """The sequences of files whose labels, if there are any, do not matter."""
    found = _read(paths, label_column, encoding, tuple(features), is_labelled=False)
    return [series for each in found for series in each]


def features_of(config: LabelledConfig) -> tuple[str, ...]:
    """The names of the values in a table; none in an archive of arrays."""
    for name in config.paths:
        if ending(local_path(name)) != ".npz":
            return _features(open_table(name, config.encoding), config.label_column, ())
    return ()


def _columns_of(config: LabelledConfig) -> list[str]:
    for name in config.paths:
        if ending(local_path(name)) != ".npz":
            table = open_table(name, config.encoding)
            key, step, label = _roles(table, config.label_column)
            values = _features(table, config.label_column, ())
            roles = {"sequence": [key], "step": [step], "values": values, "label": [label]}
            return [f"columns: {columns_in_words(table, roles)}"]
    return []


def _read(
    paths: Iterable[str],
    label_column: str | None,
    encoding: str,
    features: tuple[str, ...] = (),
    is_labelled: bool = True,
) -> list[list[Series]]:
    """The sequences of each file."""
    found: list[list[Series]] = []
    for name in paths:
        with reading(name):
            path = local_path(name)
            if path.is_file() and ending(path) == ".npz":
                found.append([Series(*each) for each in read_sequences(path, is_labelled)])
                continue
            table = open_table(name, encoding)
            roles: tuple[str, str, str | None]
            if is_labelled:
                features = _features(table, label_column, features)
                roles = _roles(table, label_column)
            else:
                features = _features_beside(table, label_column, features)
                roles = (*_keys(table, label_column), None)
            found.append(list(_table_series(table, roles, features)))
    _check_widths([each[0] for each in found])
    return found


def _items(series: list[Series], paths: Sequence[str]) -> Items[Series]:
    return Items(
        found=series,
        content=lambda each: each.values.tobytes(),
        labels=lambda each: (each.label,),
        answer=lambda each: each.label,
        source=lambda each: each.source,
        what="sequence",
        body="sequence",
        where=", ".join(paths),
    )


def _check_widths(found: list[Series]) -> None:
    for series in found:
        if series.values.shape[1] != found[0].values.shape[1]:
            raise GlassformerError(
                f"{series.source} has {counted(series.values.shape[1], 'value')} at each step, but "
                f"{found[0].source} has {found[0].values.shape[1]}. Give each sequence the same."
            )


# --- tables ---


def _is_series(name: str, label_column: str | None, encoding: str) -> bool:
    path = local_path(name)
    if not path.is_file() or ending(path) != ".csv":
        return ending(path) == ".npz"
    try:
        table = open_table(name, encoding)
    except GlassformerError:
        return False  # whatever is wrong with it is said when it is read
    roles = [
        [each for each in table.columns if each in candidates or each.casefold() in candidates]
        for candidates in (ID_COLUMNS, STEP_COLUMNS, [label_column] if label_column else LABELS)
    ]
    if not all(roles[:2]):
        return False
    head = list(islice(table.rows, _SAMPLE))
    rest = [each for each in table.columns if not any(each in role for role in roles)]
    numbers = [*rest, *roles[1]]  # the step is one, too
    return bool(rest) and not any(
        _is_text(each, head) or each.casefold() in TEXT_COLUMNS for each in numbers
    )


def _is_text(name: str, head: list[Row]) -> bool:
    return all(_as_number(row.values.get(name)) is None for row in head)


def _as_number(value: Any) -> float | None:
    """A number that float32 can hold, or None."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) <= _LARGEST else None  # which NaN is not either


@dataclass(slots=True)
class _Growing:
    """A sequence of which some steps have been read."""

    label: str
    first: str
    steps: dict[float, list[float]] = field(default_factory=dict)


def _roles(table: Table, label_column: str | None) -> tuple[str, str, str]:
    """The columns that tell the sequence, the step in it and the label."""
    keys = [each for each in table.columns if each.casefold() in (*ID_COLUMNS, *STEP_COLUMNS)]
    free = [each for each in table.columns if each not in keys]
    may_be_labels = [each for each in free if each.casefold() in LABELS or each in table.worded]
    if label_column is None and not may_be_labels:
        raise GlassformerError(
            f"{table.name} has no label column. It has: {', '.join(table.columns)}. Add one, or "
            "say --label-column NAME."
        )
    label = column(table, label_column, LABELS, "label", taken=keys)
    return (*_keys(table, label), label)


def _keys(table: Table, taken: str | None = None) -> tuple[str, str]:
    return _only(table, ID_COLUMNS, taken), _only(table, STEP_COLUMNS, taken)


def _only(table: Table, candidates: tuple[str, ...], taken: str | None) -> str:
    found = [name for name in table.columns if name.casefold() in candidates and name != taken]
    if len(found) != 1:
        raise GlassformerError(
            f"{table.name} must have exactly one column called {' or '.join(candidates[:2])}, but "
            f"has {', '.join(found) or 'none'} among {', '.join(table.columns)}. Rename one."
        )
    return found[0]


def _features(table: Table, label_column: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of values, in the order of the first table."""
    roles = _roles(table, label_column)
    found = tuple(name for name in table.columns if name not in roles)
    if not found:
        raise GlassformerError(
            f"{table.name} has no column of values beside {', '.join(roles)}. Add one."
        )
    if known and {*found} != {*known}:
        raise GlassformerError(
            f"{table.name} has the values {', '.join(found)}, but "
            f"{', '.join(known)} are wanted. Give all tables the same columns."
        )
    return known or found


def _features_beside(
    table: Table, label_column: str | None, known: tuple[str, ...]
) -> tuple[str, ...]:
    """The columns of values, whatever else there is: a label, or none."""
    if missing := [name for name in known if name not in table.columns]:
        raise GlassformerError(
            f"{table.name} has no column {' and '.join(missing)}, which the model reads. It has: "
            f"{', '.join(table.columns)}. Add it."
        )
    others = {*_keys(table, label_column), label_column}
    found = known or tuple(
        name for name in table.columns if name not in others and name.casefold() not in LABELS
    )
    if not found:
        raise GlassformerError(f"{table.name} has no column of values. Add one.")
    return found


def _table_series(
    table: Table, roles: tuple[str, str, str | None], features: tuple[str, ...]
) -> Iterator[Series]:
    key, step, label = roles
    growing: dict[str, _Growing] = {}
    for row in table.rows:
        own = row.values.get(key)
        if own is None or not str(own).strip():
            raise GlassformerError(f'{row.place} has nothing in column "{key}". Fill it in.')
        name = ""
        if label is not None:
            name = label_name(row.values.get(label), row.place, f'column "{label}"')
        series = growing.setdefault(str(own), _Growing(name, row.place))
        if name != series.label:
            raise GlassformerError(
                f'{row.place}: {key} {own} has the label "{name}" here, but "{series.label}" in '
                f"{series.first}. A sequence has one label."
            )
        at = _number_in(row, step)
        if at in series.steps:
            raise GlassformerError(
                f"{row.place}: {step} {row.values[step]} of {key} {own} comes twice. Delete one."
            )
        series.steps[at] = [_number_in(row, feature) for feature in features]
    for series in growing.values():
        values = [series.steps[at] for at in sorted(series.steps)]
        yield Series(np.asarray(values, dtype=np.float32), series.label, series.first)


def _number_in(row: Row, name: str) -> float:
    number = _as_number(row.values.get(name))
    if number is None:
        raise GlassformerError(
            f'{row.place}: column "{name}" holds {row.values.get(name)!r}, which is not a number '
            "that can be trained on. Fill it in, or delete the row."
        )
    return number
