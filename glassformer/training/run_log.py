"""The curves of a run: a CSV for people, and pages of TensorBoard or Weights & Biases.

metrics.csv has nothing in it that depends on the clock, so that a run which was stopped and resumed
leaves the same bytes as one which was not. Speed goes to the pages only.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.atomic_files import explained, sync, write_file
from glassformer.checkpoint.run_record import HEADING, METRICS, SAMPLES, read_metrics, rows_of
from glassformer.errors import GlassformerError
from glassformer.wording import cause

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
        self.path = folder / METRICS
        found, self.num_damaged = rows_of(self.path, self.columns)
        rows = [row for row in found if int(row["step"]) <= resumed_at]
        text = io.StringIO()
        table = csv.DictWriter(text, self.columns, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        write_file(self.path, text.getvalue())
        self.samples = folder / SAMPLES
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


def _ignore(*_: Any, **__: Any) -> None:
    pass


class NoLog(RunLog):
    """The log of a process that leaves the writing to the first one."""

    num_damaged = 0
    __init__ = write = sample = sync = close = _ignore


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
                f"Weights & Biases: {cause(error)}. Fix this, or remove wandb from report_to."
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


def best_loss(folder: Path) -> float:
    """The lowest validation loss of a run that has validated."""
    rows = read_metrics(folder / METRICS)
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
