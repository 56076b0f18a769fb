"""What a training reports while it runs, and how it is stopped.

Progress       the line on the terminal, and samples of text as they come
RunLog         metrics.csv, samples.txt, and the pages of TensorBoard or Weights & Biases
StopRequest    Ctrl-C and SIGTERM: the step under way is finished and saved, then it stops
"""

import csv
import io
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from rich.cells import cell_len

from glassformer.checkpoint.training_state import HEADING, METRICS, SAMPLES, read_metrics, rows_of
from glassformer.errors import GlassformerError
from glassformer.files import explained, sync, write_file
from glassformer.machine import processes
from glassformer.machine.processes import SIGNALS, postponed
from glassformer.progress import BAR, ProgressLine, bar
from glassformer.wording import cause, clock, score_name

# --- the progress line ---

SHORT_BAR = 10
LOG_WIDTH = 100
SAMPLE_LINES = 8  # of a text with line breaks, on a terminal


def name_in_line(measure: str) -> str:
    return "val" if measure == "loss" else f"val {score_name(measure)}"


@dataclass
class StatusLine:
    """The numbers of the progress line."""

    step: int
    max_steps: int
    loss: float | None = None
    val: float | None = None
    """The last value of the measure."""
    best: float | None = None
    best_step: int | None = None
    measure: str = "loss"
    title: str = "best"
    """The name of the best model: "kept" if another score selected it."""

    def line(self, speed: str, seconds_left: float, width: int | None) -> str:
        """The status on a line of at most `width`, without the least important parts if needed."""
        step = f"step {self.step:,}/{self.max_steps:,}"
        loss = val = best = left = ""
        if self.loss is not None:
            loss = f"loss {self.loss:.2f}"
        if self.val is not None and self.best is not None:
            digits = 2 if self.measure == "loss" else 3
            val = f"{name_in_line(self.measure)} {self.val:.{digits}f}"
            best = f"({self.title} {self.best:.{digits}f} @ {self.best_step:,})"
        if speed:  # not known at the very first step
            left = f"ETA {clock(seconds_left)}"
        if width is None:
            return " ".join(filter(None, (step, loss, val, best, speed, left)))
        for omitted, sizes in (
            ((), (BAR, SHORT_BAR)),
            ((best,), (BAR, SHORT_BAR)),
            ((best, speed), (BAR, SHORT_BAR, 0)),
            ((best, speed, val), (0,)),
        ):
            for size in sizes:
                parts = (step, bar(self.step, self.max_steps, size), loss, val, best, speed, left)
                line = " ".join(part for part in parts if part and part not in omitted)
                if len(line) <= width:
                    return line
        return line


class Progress:
    """Shows the standing after each step, and samples of text as they come."""

    def __init__(self, stream: TextIO, items_per_step: int, unit: str = "token") -> None:
        self._line = ProgressLine(stream, "preparing the first step …", keeps_last=True)
        self._items_per_step = items_per_step
        self._unit = unit
        self._times: deque[tuple[int, float]] = deque(maxlen=50)  # (step, when)
        self._pause = 0.0
        self._first: tuple[int, float] | None = None  # (step, when)

    def __enter__(self) -> "Progress":
        self._line.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.__exit__()

    def write(self, text: str, whole: bool = True) -> None:
        """A line of its own; if it need not be whole, only as much as fits."""
        width = self._line.width if self._line.is_terminal else LOG_WIDTH
        if not whole and len(text) > width:
            words, _, _ = text[: width - 1].rpartition(" ")
            # What a young model writes may be one word without end, which is cut anywhere.
            text = f"{words} …" if len(words) > width // 2 else f"{text[: width - 1]}…"
        self._line.write(text)

    def sample(self, heading: str, text: str) -> None:
        """What the model writes now. Code and verse keep their lines on a terminal that is wide
        enough; anything else is one line, as much as fits."""
        lines = text.expandtabs(4).strip("\n").split("\n")
        room = self._line.width - len(f"{heading} │ ")
        if not self._line.is_terminal or len(lines) == 1 or max(map(cell_len, lines)) > room:
            self.write(f"{heading} │ {' '.join(text.split())}", whole=False)
            return
        if len(lines) > SAMPLE_LINES:
            lines[SAMPLE_LINES - 1 :] = ["…"]
        margins = [heading, *(" " * len(heading) for _ in lines[1:])]
        self.write("\n".join(map(" │ ".join, zip(margins, lines, strict=True))))

    def show(self, status: StatusLine, most: float | None = None) -> None:
        """`most` are the seconds that are left of a time limit."""
        now = time.perf_counter()
        self._times.append((status.step, now - self._pause))
        # By all the time since the first step: validation comes again, too.
        self._first = self._first or (status.step, now)
        per_step = (now - self._first[1]) / max(1, status.step - self._first[0])
        seconds = (status.max_steps - status.step) * per_step
        if most is not None:
            seconds = max(0.0, min(seconds, most))
        width = self._line.width if self._line.is_terminal else None
        line = status.line(self._speed(), seconds, width)
        self._line.show(line, status.step, status.max_steps)

    def _speed(self) -> str:
        """24.8k tokens/s; empty at the very first step."""
        speed = self.items_per_second
        if not speed:
            return ""
        rate = f"{speed / 1000:.1f}k" if speed >= 1000 else f"{speed:.0f}"
        return f"{rate} {self._unit}s/s"

    def not_training(self, seconds: float) -> None:
        """Time spent on validation and saving, which does not count as training."""
        self._pause += seconds

    @property
    def items_per_second(self) -> float:
        if len(self._times) < 2:
            return 0.0
        (first, begin), (last, end) = self._times[0], self._times[-1]
        return (last - first) * self._items_per_step / max(end - begin, 1e-9)


# --- curves and samples ---
# metrics.csv has nothing in it that depends on the clock, so that a run which was stopped and
# resumed leaves the same bytes as one which was not. Speed goes to the pages only.

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
        earlier, self.num_damaged = rows_of(self.path, self.columns)
        rows = [row for row in earlier if int(row["step"]) <= resumed_at]
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


# --- signals ---


class Interruption(BaseException):
    """Ctrl-C or SIGTERM came while nothing had to be finished."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@contextmanager
def _handled(handlers: Mapping[int, Any]) -> Iterator[None]:
    """Signals have these handlers inside the `with` block, and their former ones afterwards. Only
    the main thread of a program receives signals: in another one, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def raising_interruption() -> Iterator[None]:
    """Inside, a signal raises an Interruption: there is nothing that would have to be finished.
    Further signals are ignored until that has been reported."""

    def stop(number: int, frame: FrameType | None) -> None:
        if postponed(number, frame):
            return
        for further in SIGNALS:
            signal.signal(further, signal.SIG_IGN)
        raise Interruption(number)

    with _handled(dict.fromkeys(SIGNALS, stop)):
        yield


@contextmanager
def without_handlers() -> Iterator[None]:
    """Inside, a signal ends the process at once. Handlers in Python have to wait for calls into
    torch to return, and waiting for another process may take for ever."""
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    with _handled(dict.fromkeys(numbers, signal.SIG_DFL)):
        yield


class StopRequest:
    """Whether a signal asked the training to stop. A second signal ends it at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Listen to signals inside the `with` block. A training in another thread than the main
        one runs to its end."""
        with _handled(dict.fromkeys(SIGNALS, self._stop)):
            yield

    def _stop(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal is not None:
            if processes.here() is not None:  # the launcher may repeat what the terminal has sent
                return
            raise SystemExit(128 + number)
        self.signal = number
        if not processes.is_first():
            return
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        # Not through a stream: the signal may have come while one was being written to.
        os.write(2, f"{name}: stopping after this step …\n".encode())
