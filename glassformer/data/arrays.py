"""Sequences of numbers in an .npz, which is opened as the zip of plain numbers that it is.

Objects, which could run code when they are loaded, are refused, and no size is believed before it
has been checked.
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

from glassformer.data.examples import label_name
from glassformer.data.tables import EmptyError
from glassformer.errors import GlassformerError
from glassformer.wording import readable_size

MOST_BYTES = 4 * 10**9  # of one array, unpacked: a small zip can claim to hold any amount


def read_sequences(
    path: Path, is_labelled: bool
) -> Iterator[tuple[npt.NDArray[np.float32], str, str]]:
    """The values (steps, features) of each, its label (empty where labels do not matter) and its
    place; of arrays x, y and lengths."""
    needed = ("x", "y") if is_labelled else ("x",)
    arrays = read_arrays(path, needed, "lengths")
    x, y = arrays["x"], arrays.get("y")
    lengths = arrays.get("lengths")
    x = x[:, :, None] if x.ndim == 2 else x  # (N, T, F)
    if x.ndim != 3 or x.dtype.kind not in "biuf":
        raise _wrong_array(path, "x", x, "numbers of shape (N, T, F) or (N, T)")
    if len(x) == 0:
        raise EmptyError(f"{path} has no sequences in it.")
    if 0 in x.shape:
        raise _wrong_array(path, "x", x, "at least one step and one feature")
    if y is not None and (y.shape != (len(x),) or y.dtype.kind not in "biufUS"):
        raise _wrong_array(path, "y", y, f"a label for each sequence of x, so shape ({len(x)},)")
    if lengths is not None and (lengths.shape != (len(x),) or lengths.dtype.kind not in "iu"):
        raise _wrong_array(path, "lengths", lengths, f"whole numbers of shape ({len(x)},)")
    for index, label in enumerate([None] * len(x) if y is None else y.tolist()):
        place = f"{path}:{index + 1}"
        steps = x.shape[1] if lengths is None else int(lengths[index])
        if not 1 <= steps <= x.shape[1]:
            raise GlassformerError(f"{place}: the length is {steps}, not 1 to {x.shape[1]}.")
        with np.errstate(over="ignore"):  # it becomes infinite, which is looked for next
            values = x[index, :steps].astype(np.float32)
        if not np.isfinite(values).all():
            step, feature = np.argwhere(~np.isfinite(values))[0]
            raise GlassformerError(
                f"{place}: step {step}, feature {feature} of x is {x[index, step, feature]}, which "
                "cannot be trained on. Fill it in, or leave the sequence out."
            )
        if isinstance(label, bytes):
            label = label.decode("latin-1")
        name = "" if y is None else label_name(label, place, 'array "y"')
        yield values, name, place


def _wrong_array(path: Path, name: str, array: npt.NDArray[Any], wanted: str) -> GlassformerError:
    return GlassformerError(
        f"{path}: array {name} has shape {array.shape} and type {array.dtype}, but must be "
        f"{wanted}."
    )


def read_arrays(path: Path, needed: Sequence[str], *more: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an .npz that are needed, and those of the others that it has; what is not named
    is not looked at."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {
                entry.filename.removesuffix(".npy").lower(): entry for entry in archive.infolist()
            }
            if missing := [name for name in needed if name not in entries]:
                raise GlassformerError(
                    f"{path} has no array {' and '.join(missing)}. It has: "
                    f"{', '.join(entries) or 'none'}. Save it with np.savez(path, x=…, y=…)."
                )
            return {
                name: _array(archive, entries[name], f"{path}: array {name}")
                for name in (*needed, *more)
                if name in entries
            }
    except (zipfile.BadZipFile, RuntimeError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise GlassformerError(
            f"{path} is not .npz, or is damaged ({error}). Save it with np.savez(path, x=…, y=…)."
        ) from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, what: str) -> npt.NDArray[Any]:
    """One array. Its size is checked before any room is made for it."""
    if entry.file_size > MOST_BYTES:
        raise GlassformerError(
            f"{what} unpacks to {readable_size(entry.file_size)}; the most that is read is "
            f"{readable_size(MOST_BYTES)}. Give it in several files."
        )
    try:
        with archive.open(entry) as stream:
            version = npy.read_magic(stream)
            headers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
            if version not in headers:
                raise GlassformerError(f"{what} is not made of plain numbers or labels.")
            shape, _, dtype = headers[version](stream)
            num_bytes = math.prod(shape) * dtype.itemsize
            if dtype.hasobject:
                raise GlassformerError(
                    f"{what} holds Python objects, which could run code when they are loaded. "
                    "Save it as plain numbers, and labels as numbers or text."
                )
            if min(shape, default=0) < 0 or num_bytes != entry.file_size - stream.tell():
                raise GlassformerError(
                    f"{what} claims the shape {shape}, which is not what the file holds. "
                    "Save it again."
                )
        with archive.open(entry) as stream:
            return npy.read_array(stream, allow_pickle=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, TokenError) as error:
        raise GlassformerError(f"{what} cannot be read: {error}. Save it again.") from None
