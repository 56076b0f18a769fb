"""Time series in .npz files, opened as zip archives of plain arrays.

Python objects, which could run code when loaded, are refused, and declared sizes are checked before
memory is allocated.
"""

import lzma
import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from glassformer.data.labels import label_name
from glassformer.data.text_files import EmptyError
from glassformer.errors import GlassformerError
from glassformer.wording import cause, readable_size

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
