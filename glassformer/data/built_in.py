"""Data that needs no download: every set by name, and how it is written into a folder.

The table imports nothing that is slow, so that `--help` can list it.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import UsageError

COUNT, SEED = 2_000, 0


@dataclass(frozen=True)
class BuiltIn:
    """A set of data."""

    about: str
    """A short description for `--help`."""
    write: Callable[[Path, int, int], str]
    """Writes the data into a folder (folder, count, seed). Returns a description of the files."""
    is_drawn: bool = True
    """Whether any number of items can be drawn from a random seed."""


def _digits(folder: Path, count: int, seed: int) -> str:
    from glassformer.data.shapes import write_digits

    return write_digits(folder)


def _shapes(folder: Path, count: int, seed: int) -> str:
    from glassformer.data.shapes import write_shapes

    return write_shapes(folder, count, seed)


SETS: dict[str, BuiltIn] = {
    "digits": BuiltIn("1,797 handwritten digits, 8×8, in folders by class", _digits, False),
    "shapes": BuiltIn("drawn scenes with captions and the boxes of all shapes", _shapes),
}


def write_built_in(
    name: str, out: Path, count: int | None = None, seed: int | None = None, force: bool = False
) -> str:
    """Write a set into the folder `out`, whole or not at all. Returns what was written."""
    if name not in SETS:
        raise UsageError(f'there is no data "{name}". Available data: {", ".join(SETS)}.')
    built_in = SETS[name]
    if not built_in.is_drawn and (count is not None or seed is not None):
        option = "--count" if count is not None else "--seed"
        raise UsageError(f"{name} is always the same data: leave out {option}.")
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not force):
        raise UsageError(f"{out} already exists. Pass --force to replace it, or another --out.")
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        written = built_in.write(
            partial, COUNT if count is None else count, SEED if seed is None else seed
        )
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return written
