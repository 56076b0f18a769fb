"""The curves of a run: a CSV for people, and pages of TensorBoard or Weights & Biases.

metrics.csv has nothing in it that depends on the clock, so that a run which was stopped and resumed
leaves the same bytes as one which was not. Speed goes to the pages only.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.atomic_files import explained, sync, write_file
from glassformer.errors import GlassformerError

HEADING = re.compile(r"--- step (\d+) ---\n")
STEP = re.compile(r"[0-9]{1,18}")
NUMBER = re.compile(r"(-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|-?inf|nan)?")  # or nothing
COLUMNS = ("step", "train_loss", "learning_rate")  # and a val_… for each measure of the task


class RunLog:
    """Appends rows by step. A resumed run first forgets what came after `resumed_at`."""

    def __init__(
        self,
        folder: Path,
        measures: Sequence[str],
        resumed_at: int = 0,
        report_to: Sequence[str] = ("tensorboard",),
    ) -> None:
        self.columns = (*COLUMNS, *(f"val_{name}" for name in measures))
        self.path = folder / "metrics.csv"
        found, self.num_damaged = _rows_of(self.path, self.columns)
        rows = [row for row in found if int(row["step"]) <= resumed_at]
        text = io.StringIO()
        table = csv.DictWriter(text, self.columns, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_file(self.path, text.getvalue())
        self.samples = folder / "samples.txt"
        write_file(self.samples, "".join(_samples_until(self.samples, resumed_at)))
        self._pages = [PAGES[name](folder, resumed_at) for name in report_to]

    def write(self, step: int, values: dict[str, float], **clocked: float) -> None:
        with explained(self.path), self.path.open("a", newline="") as file:
            row: dict[str, Any] = {"step": step} | values
            csv.DictWriter(file, self.columns, lineterminator="\n").writerow(row)
        for page in self._pages:
            page.write(step, values | clocked)

    def sample(self, step: int, text: str) -> None:
        with explained(self.samples), self.samples.open("a", encoding="utf-8", newline="") as file:
            file.write(f"--- step {step} ---\n{text}\n")
        for page in self._pages:
            page.sample(step, text)

    def sync(self) -> None:
        """Flush the logs to disk before a state is saved: no state may be newer than its logs."""
        for path in (self.path, self.samples):
            with explained(path):
                sync(path)

    def close(self) -> None:
        for page in self._pages:
            page.close()


class TensorBoard:
    """Events beside metrics.csv, for `tensorboard --logdir RUN`."""

    def __init__(self, folder: Path, resumed_at: int) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self._events = SummaryWriter(str(folder), purge_step=resumed_at + 1, flush_secs=10)

    def write(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._events.add_scalar(name, value, step)

    def sample(self, step: int, text: str) -> None:
        self._events.add_text("sample", text, step)

    def close(self) -> None:
        self._events.close()


class WeightsAndBiases:
    """A run of the project glassformer for each start of a training; its steps count on."""

    def __init__(self, folder: Path, resumed_at: int) -> None:
        import wandb

        try:
            self._run = wandb.init(project="glassformer", group=folder.name, dir=str(folder.parent))
        except Exception as error:  # a network and an account stand behind that call
            raise GlassformerError(
                f"Weights & Biases: {error}. Fix this, or remove wandb from report_to."
            ) from error

    def write(self, step: int, values: dict[str, float]) -> None:
        self._run.log(values, step=step)

    def sample(self, step: int, text: str) -> None:
        self._run.log({"sample": text}, step=step)

    def close(self) -> None:
        self._run.finish()


PAGES: dict[str, type[TensorBoard] | type[WeightsAndBiases]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
}


def read_metrics(path: Path) -> list[dict[str, str]]:
    """The complete rows: a kill may have cut the last one short."""
    return _rows_of(path)[0]


def _rows_of(path: Path, known: Sequence[str] = ()) -> tuple[list[dict[str, str]], int]:
    """The complete rows, and the number of lines that are damaged; `known` are the columns that
    may have a place in a row."""
    if not path.is_file():
        return [], 0
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header, *lines = [line[:-1] for line in file if line.endswith("\n")] or [""]
    columns = header.split(",")
    is_known = "step" in columns and set(columns) <= set(known or columns)
    cells = [line.split(",") for line in lines]
    whole = [row for row in cells if is_known and len(row) == len(columns)]
    rows = [dict(zip(columns, row, strict=True)) for row in whole]
    rows = [row for row in rows if all(NUMBER.fullmatch(value) for value in row.values())]
    rows = [row for row in rows if STEP.fullmatch(row["step"])]
    return rows, len(lines) - len(rows)


def read_samples(folder: Path) -> list[tuple[int, str]]:
    """The samples of a run: (step, text)."""
    path = folder / "samples.txt"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        _, *parts = HEADING.split(file.read())
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [(int(step), text.removesuffix("\n")) for step, text in pairs]


def best_loss(folder: Path) -> float:
    """The lowest validation loss of a run that has validated."""
    rows = read_metrics(folder / "metrics.csv")
    return min(float(row["val_loss"]) for row in rows if row["val_loss"])


def _samples_until(path: Path, step: int) -> Iterator[str]:
    """The lines of samples.txt up to the sample of `step`."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for line in file:
            if (heading := HEADING.fullmatch(line)) and int(heading[1]) > step:
                return
            yield line
