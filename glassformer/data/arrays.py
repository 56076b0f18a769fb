"""Arrays in an .npz, which is opened as the zip of plain numbers that it is.

Objects, which could run code when they are loaded, are refused, and no size is believed before it
has been checked.
"""

import lzma
import math
import zipfile
import zlib
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy.typing as npt
from numpy.lib import format as npy

from glassformer.errors import GlassformerError
from glassformer.wording import readable_size

MOST_BYTES = 4 * 10**9  # of one array, unpacked: a small zip can claim to hold any amount


def read_arrays(path: Path, *names: str) -> dict[str, npt.NDArray[Any]]:
    """Those of the named arrays that an .npz has; others are not looked at."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {
                entry.filename.removesuffix(".npy").lower(): entry for entry in archive.infolist()
            }
            return {
                name: _array(archive, entries[name], f"{path}: array {name}")
                for name in names
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
