"""Rows of different lengths on disk: written as they come, memory-mapped when they are read.

train.items         all items of all rows, end to end
train.safetensors   the length of each row, and what else belongs to the rows
"""

from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from glassformer.errors import GlassformerError
from glassformer.wording import cause

ENDING = ".items"
Array = npt.NDArray[Any]


def write_rows(path: Path, rows: Iterable[Any], dtype: npt.DTypeLike) -> Array:
    """Write the items of rows, which are read once and one by one. Returns the lengths."""
    lengths = array("q")
    with path.with_suffix(ENDING).open("wb", buffering=2**20) as file:
        for row in rows:
            items = np.asarray(row, dtype=dtype)
            lengths.append(len(items))
            file.write(items.tobytes())
    return np.asarray(lengths)


def write_columns(path: Path, dtype: npt.DTypeLike, width: int | None, **columns: Array) -> None:
    """Write what belongs to the rows, and the type of their items: single or vectors of `width`."""
    about = {"items": f"{np.dtype(dtype).str} {width or 0}"}
    save_file({name: np.ascontiguousarray(each) for name, each in columns.items()}, path, about)


@contextmanager
def stored_rows(path: Path, what: str) -> Iterator[tuple[Array, dict[str, Array]]]:
    """The items, memory-mapped, and the columns; errors while they are used name the file."""
    try:
        with safe_open(path, framework="numpy") as file:
            dtype, width = (file.metadata() or {})["items"].split()
            columns = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        is_empty = path.with_suffix(ENDING).stat().st_size == 0
        items = np.empty(0, dtype) if is_empty else np.memmap(path.with_suffix(ENDING), dtype, "r")
        yield items.reshape(-1, int(width)) if int(width) else items, columns
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise GlassformerError(f"{path} cannot be read as {what}: {cause(error)}.") from None
