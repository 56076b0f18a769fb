"""Labelled time series, such as sensor readings, heartbeats and pen strokes: read and split.

    id,step,x,y,label
    a,0,0.1,0.2,walk   →  Series([[0.1, 0.2], …], "walk", "walks.csv:2")

Two formats are read: .csv with a row for each step, and .npz with arrays x (N, T, F) or (N, T),
y (N,) and, if the sequences differ in length, lengths (N,).
"""

import lzma
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from glassformer.data.archives import ending, local_path
from glassformer.data.documents import LabelledConfig
from glassformer.data.labels import LABEL_COLUMNS, as_number, label_name
from glassformer.data.split import (
    USUAL,
    Items,
    LabelledSplit,
    bytes_key,
    check_classes,
    check_kinds,
    split_labelled,
)
from glassformer.data.tables import TEXT_COLUMNS, Row, Table, column, columns_in_words, open_table
from glassformer.data.text_files import EmptyError, reading
from glassformer.errors import GlassformerError
from glassformer.wording import cause, counted, readable_size

# --- series ---

ID_COLUMNS = ("id", "series", "series_id", "sequence", "sequence_id", "sample", "sample_id")
LABELS = tuple(name for name in LABEL_COLUMNS if name != "y")  # a coordinate here
STEP_COLUMNS = ("step", "time", "t", "timestep", "time_step", "timestamp", "frame", "tick")
_LARGEST = float(np.finfo(np.float32).max)
_SAMPLE = 100  # rows that are read to tell numbers from text


@dataclass(frozen=True, slots=True)
class Series:
    """A sequence of numbers, its label, and where it was read."""

    values: npt.NDArray[np.float32]
    """(steps, features)"""
    label: str
    """Empty if labels were not read."""
    source: str

    @property
    def input(self) -> npt.NDArray[np.float32]:
        return self.values

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.label,)

    @property
    def num_features(self) -> int:
        return self.values.shape[1]

    @property
    def content(self) -> bytes:
        return self.values.tobytes()

    def key(self, seed: int) -> int:
        return bytes_key(self.content, seed)


class _Columns(NamedTuple):
    """What the columns of a table are used for."""

    key: str
    step: str
    label: str | None
    """None if labels are not read."""
    values: tuple[str, ...]


def read_series_split(config: LabelledConfig, seed: int) -> LabelledSplit[Series]:
    """All time series, split as the config says."""
    # Read in one go, so that all parts have the same features in the same order.
    names = [name for paths in config.parts for name in paths]
    files = iter(_read_files(names, config.label_column, config.encoding))
    parts: list[Items[Series]] = []
    for paths in config.parts:
        parts.append(Items(paths, "sequence", seed))
        parts[-1].extend(series for _ in paths for series in next(files))
    training, validation, test = parts
    check_kinds(training)
    check_classes(training)
    split = split_labelled(training, validation, test, config.validation_fraction or USUAL)
    features, label, columns = _columns_of(config)
    return replace(split, text_column=features, label_column=label, columns=columns)


def _columns_of(config: LabelledConfig) -> tuple[tuple[str, ...], str | None, list[str]]:
    """Features and label of the first table, and how its columns are used; an .npz has none."""
    for name in config.paths:
        if ending(local_path(name)) != ".npz":
            table = open_table(name, config.encoding)
            key, step, label, values = _series_columns(table, config.label_column)
            roles = {"sequence": [key], "step": [step], "values": values, "label": [str(label)]}
            return values, label, [f"columns: {columns_in_words(table, roles)}"]
    return (), config.label_column, []


def is_series(
    paths: Sequence[str], label_column: str | None = None, encoding: str = "utf-8"
) -> bool:
    """Whether all of these contain sequences of numbers: .npz, or .csv with id, step and values. A
    missing label is reported when they are read."""
    return bool(paths) and all(_is_series(name, label_column, encoding) for name in paths)


def read_series(
    paths: Iterable[str],
    label_column: str | None = None,
    encoding: str = "utf-8",
    features: Sequence[str] = (),
    is_labelled: bool = True,
) -> list[Series]:
    """The sequences of files, in a fixed order. All have the same features: those named, if any.
    Without `is_labelled`, labels are neither required nor read."""
    files = _read_files(paths, label_column, encoding, features, is_labelled)
    return [series for file in files for series in file]


def _read_files(
    paths: Iterable[str],
    label_column: str | None,
    encoding: str,
    features: Sequence[str] = (),
    is_labelled: bool = True,
) -> list[list[Series]]:
    """The sequences of each file."""
    files: list[list[Series]] = []
    for name in paths:
        with reading(name):
            path = local_path(name)
            if isinstance(path, Path) and path.is_file() and ending(path) == ".npz":
                files.append([Series(*fields) for fields in read_npz_series(path, is_labelled)])
                continue
            table = open_table(name, encoding)
            columns = _series_columns(table, label_column, features, is_labelled)
            features = columns.values
            files.append(list(_table_series(table, columns)))
    firsts = [file[0] for file in files]
    for series in firsts:
        if series.num_features != firsts[0].num_features:
            raise GlassformerError(
                f"{series.source} has {counted(series.num_features, 'value')} per step, but "
                f"{firsts[0].source} has {firsts[0].num_features}. Give all sequences the same "
                "number of values."
            )
    return files


def _is_series(name: str, label_column: str | None, encoding: str) -> bool:
    path = local_path(name)
    if not path.is_file() or ending(path) != ".csv":
        return ending(path) == ".npz"
    try:
        table = open_table(name, encoding)
    except GlassformerError:
        return False  # what is wrong is reported when it is read
    roles = [
        [name for name in table.columns if name in candidates or name.casefold() in candidates]
        for candidates in (ID_COLUMNS, STEP_COLUMNS, [label_column] if label_column else LABELS)
    ]
    if not all(roles[:2]):
        return False
    head = list(islice(table.rows, _SAMPLE))
    rest = [name for name in table.columns if not any(name in role for role in roles)]
    numbers = [*rest, *roles[1]]  # the step is a number, too
    return bool(rest) and all(
        name.casefold() not in TEXT_COLUMNS
        and any(_as_number(row.values.get(name)) is not None for row in head)
        for name in numbers
    )


def _as_number(written: Any) -> float | None:
    """A number that float32 can hold, or None."""
    value = as_number(written)
    return value if value is not None and abs(value) <= _LARGEST else None


def _series_columns(
    table: Table, label_column: str | None, wanted: Sequence[str] = (), is_labelled: bool = True
) -> _Columns:
    """The columns by their names and content. The value columns are those `wanted`, if any."""
    label = label_column
    if is_labelled:
        keys = [name for name in table.columns if name.casefold() in (*ID_COLUMNS, *STEP_COLUMNS)]
        free = [name for name in table.columns if name not in keys]
        likely = [name for name in free if name.casefold() in LABELS or name in table.worded]
        if label is None and not likely:
            raise GlassformerError(
                f"{table.name} has no label column (columns: {', '.join(table.columns)}). Add one, "
                "or pass --label-column NAME."
            )
        label = column(table, label, LABELS, "label", used=keys)
    key, step = _only(table, ID_COLUMNS, label), _only(table, STEP_COLUMNS, label)
    roles = [name for name in (key, step, label) if name in table.columns]
    values = [name for name in table.columns if name not in roles]
    if not is_labelled:
        values = list(wanted) or [name for name in values if name.casefold() not in LABELS]
        if missing := [name for name in wanted if name not in table.columns]:
            raise GlassformerError(
                f"{table.name} has no column {' and '.join(missing)}, which the model requires "
                f"(columns: {', '.join(table.columns)}). Add it."
            )
    if not values:
        raise GlassformerError(
            f"{table.name} has no value column besides {', '.join(roles)}. Add one."
        )
    if wanted and {*values} != {*wanted}:
        raise GlassformerError(
            f"{table.name} has the value columns {', '.join(values)}; expected "
            f"{', '.join(wanted)}. Give all tables the same columns."
        )
    return _Columns(key, step, label if is_labelled else None, tuple(wanted or values))


def _only(table: Table, candidates: tuple[str, ...], used: str | None) -> str:
    fitting = [name for name in table.columns if name.casefold() in candidates and name != used]
    if len(fitting) != 1:
        raise GlassformerError(
            f"{table.name} must have exactly one column named {' or '.join(candidates[:2])}, but "
            f"has {', '.join(fitting) or 'none'} (columns: {', '.join(table.columns)}). Rename one."
        )
    return fitting[0]


def _table_series(table: Table, columns: _Columns) -> Iterator[Series]:
    key, step, label, features = columns
    growing: dict[str, tuple[str, str, dict[float, list[float]]]] = {}  # label, place, steps
    for row in table.rows:
        id = row.values.get(key)
        if id is None or not str(id).strip():
            raise GlassformerError(f'{row.place}: column "{key}" is empty. Fill it in.')
        name = ""
        if label is not None:
            name = label_name(row.values.get(label), row.place, f'column "{label}"')
        first_name, place, steps = growing.setdefault(str(id), (name, row.place, {}))
        if name != first_name:
            raise GlassformerError(
                f'{row.place}: {key} {id} has the label "{name}", but "{first_name}" at {place}. '
                "Give each sequence one label."
            )
        at = _number_in(row, step)
        if at in steps:
            raise GlassformerError(
                f"{row.place}: {step} {row.values[step]} of {key} {id} is repeated. Delete one."
            )
        steps[at] = [_number_in(row, feature) for feature in features]
    for name, place, steps in growing.values():
        values = [steps[at] for at in sorted(steps)]
        yield Series(np.asarray(values, dtype=np.float32), name, place)


def _number_in(row: Row, name: str) -> float:
    value = _as_number(row.values.get(name))
    if value is None:
        raise GlassformerError(
            f'{row.place}: column "{name}" contains {row.values.get(name)!r}, not a finite 32-bit '
            "number. Correct it, or delete the row."
        )
    return value


# --- .npz, opened as a zip archive of plain arrays ---
# Python objects, which could run code when loaded, are refused, and declared sizes are checked
# before memory is allocated.

MOST_BYTES = 4 * 10**9  # of one array, unpacked: a small zip can expand to any size


def read_npz_series(
    path: Path, is_labelled: bool
) -> Iterator[tuple[npt.NDArray[np.float32], str, str]]:
    """Values (steps, features), label (empty if not read) and place of each sequence, from the
    arrays x, y and lengths."""
    needed = ("x", "y") if is_labelled else ("x",)
    arrays = read_arrays(path, needed, "lengths")
    x, y, lengths = arrays["x"], arrays.get("y"), arrays.get("lengths")
    x = x[:, :, None] if x.ndim == 2 else x  # (N, T, F)
    if x.ndim != 3 or x.dtype.kind not in "biuf":
        raise _wrong_array(path, "x", x, "numbers of shape (N, T, F) or (N, T)")
    if len(x) == 0:
        raise EmptyError(f"{path} contains no sequences.")
    if 0 in x.shape:
        raise _wrong_array(path, "x", x, "at least one step and one feature")
    if y is not None and (y.shape != (len(x),) or y.dtype.kind not in "biufUS"):
        raise _wrong_array(path, "y", y, f"one label for each sequence of x, shape ({len(x)},)")
    if lengths is not None and (lengths.shape != (len(x),) or lengths.dtype.kind not in "iu"):
        raise _wrong_array(path, "lengths", lengths, f"whole numbers of shape ({len(x)},)")
    if y is not None and y.dtype.kind == "S":
        y = _decoded(y)
    for index, label in enumerate([None] * len(x) if y is None else y.tolist()):
        place = f"{path}:{index + 1}"
        steps = x.shape[1] if lengths is None else int(lengths[index])
        if not 1 <= steps <= x.shape[1]:
            raise GlassformerError(
                f"{place}: the length {steps} is not between 1 and {x.shape[1]}."
            )
        with np.errstate(over="ignore"):  # it becomes infinite, which is checked next
            values = x[index, :steps].astype(np.float32)
        if not np.isfinite(values).all():
            step, feature = np.argwhere(~np.isfinite(values))[0]
            raise GlassformerError(
                f"{place}: step {step}, feature {feature} of x is {x[index, step, feature]}, not a "
                "finite number. Correct it, or remove the sequence."
            )
        yield values, "" if y is None else label_name(label, place, 'array "y"'), place


def _decoded(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    try:
        return np.char.decode(labels, "utf-8")
    except UnicodeDecodeError:
        return np.char.decode(labels, "latin-1")


def _wrong_array(path: Path, name: str, array: npt.NDArray[Any], wanted: str) -> GlassformerError:
    return GlassformerError(
        f"{path}: array {name} has shape {array.shape} and type {array.dtype}; expected {wanted}."
    )


def read_arrays(path: Path, needed: Sequence[str], *more: str) -> dict[str, npt.NDArray[Any]]:
    """The required arrays of an .npz, and those of the optional ones that it contains."""
    cure = f"Save it with np.savez(path, {', '.join(f'{name}=…' for name in needed)})."
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {
                entry.filename.removesuffix(".npy").lower(): entry for entry in archive.infolist()
            }
            if missing := [name for name in needed if name not in entries]:
                raise GlassformerError(
                    f"{path} has no array {' and '.join(missing)} (arrays: "
                    f"{', '.join(entries) or 'none'}). {cure}"
                )
            return {
                name: _array(archive, entries[name], f"{path}: array {name}")
                for name in (*needed, *more)
                if name in entries
            }
    except (zipfile.BadZipFile, RuntimeError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise GlassformerError(f"{path} is not .npz, or is damaged ({error}). {cure}") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, what: str) -> npt.NDArray[Any]:
    """One array. Its size is checked before memory is allocated."""
    if entry.file_size > MOST_BYTES:
        raise GlassformerError(
            f"{what} unpacks to {readable_size(entry.file_size)}; the limit is "
            f"{readable_size(MOST_BYTES)}. Split it into several files."
        )
    try:
        with archive.open(entry) as stream:
            version = npy.read_magic(stream)
            headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
            if version not in headers:
                raise GlassformerError(f"{what} does not contain plain numbers or labels.")
            shape, _, dtype = headers[version](stream)
            num_bytes = math.prod(shape) * dtype.itemsize
            if dtype.hasobject:
                raise GlassformerError(
                    f"{what} contains Python objects, which could run code when loaded. "
                    "Save values as numbers, and labels as numbers or text."
                )
            if min(shape, default=0) < 0 or num_bytes != entry.file_size - stream.tell():
                raise GlassformerError(
                    f"{what} declares the shape {shape}, which does not match its size. "
                    "Save it again."
                )
        with archive.open(entry) as stream:
            return npy.read_array(stream, allow_pickle=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, TokenError) as error:
        raise GlassformerError(f"{what} cannot be read: {cause(error)}. Save it again.") from None
