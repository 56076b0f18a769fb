"""What a run recorded while it learned.

    metrics.csv                        the curves
    samples.txt                        what the model wrote on the way
    snapshots/step-0.safetensors       its weights before the first step
    snapshots/step-1.safetensors …     and after some of the others

Snapshots contain nothing but weights: training continues from checkpoints, never from these. These
in turn are no snapshots: only two are kept, and each is several times as large.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from glassformer.checkpoint.model_folder import load_model, weights_file
from glassformer.errors import GlassformerError
from glassformer.files import write_file

METRICS, SAMPLES = "metrics.csv", "samples.txt"  # in a run's folder
HEADING = re.compile(r"--- step (\d+) ---\n")
STEP = re.compile(r"[0-9]{1,18}")
NUMBER = re.compile(r"(-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|-?inf|nan)?")  # or nothing


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The complete rows: a kill may have cut the last one short."""
    return rows_of(path)[0]


def rows_of(path: Path, expected: Sequence[str] = ()) -> tuple[list[dict[str, str]], int]:
    """The complete rows, and the number of lines that are damaged; `expected` are the columns that
    may have a place in a row."""
    if not path.is_file():
        return [], 0
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header, *lines = [line[:-1] for line in file if line.endswith("\n")] or [""]
    columns = header.split(",")
    is_known = "step" in columns and set(columns) <= set(expected or columns)
    cells = [line.split(",") for line in lines]
    whole = [row for row in cells if is_known and len(row) == len(columns)]
    rows = [dict(zip(columns, row, strict=True)) for row in whole]
    rows = [row for row in rows if all(NUMBER.fullmatch(value) for value in row.values())]
    rows = [row for row in rows if STEP.fullmatch(row["step"])]
    return rows, len(lines) - len(rows)


def read_samples(folder: Path) -> list[tuple[int, str]]:
    """The samples of a run: (step, text)."""
    path = folder / SAMPLES
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        _, *parts = HEADING.split(file.read())
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [(int(step), text.removesuffix("\n")) for step, text in pairs]


def curves_of(rows: Sequence[dict[str, str]]) -> dict[str, list[float | None]]:
    """The rows as columns of numbers; columns without any are left out."""
    names = list(rows[0]) if rows else []
    curves = {name: [_number(row[name]) for row in rows] for name in names}
    return {name: values for name, values in curves.items() if any(v is not None for v in values)}


def _number(text: str) -> float | None:
    """A value of metrics.csv; None for a gap, and for what no chart can show."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# --- snapshots ---

SNAPSHOTS = "snapshots"  # in a run's folder
NAME = re.compile(r"step-(\d+)\.safetensors")


def save_snapshot(run: Path, step: int, model: nn.Module) -> None:
    """Write the weights of a model, whole or not at all."""
    write_file(run / SNAPSHOTS / f"step-{step}.safetensors", weights_file(model))


def snapshots_of(run: Path) -> list[tuple[int, Path]]:
    """(step, file), oldest first."""
    folder = run / SNAPSHOTS
    files = folder.iterdir() if folder.is_dir() else ()
    matches = [(NAME.fullmatch(file.name), file) for file in files]
    return sorted((int(match[1]), file) for match, file in matches if match)


def forget_snapshots(run: Path, after: int) -> None:
    """Delete the snapshots of later steps, and what a kill has left half-written."""
    for step, file in snapshots_of(run):
        if step > after:
            file.unlink()
    for left_by_a_kill in (run / SNAPSHOTS).glob(".step-*"):
        left_by_a_kill.unlink()


def load_snapshot(run: Path, file: Path) -> nn.Module:
    """The model of a run with the weights of a snapshot."""
    try:
        return load_model(run, file).model
    except GlassformerError as error:
        raise GlassformerError(
            f"{error} Or delete it: the other snapshots are shown without it."
        ) from None
