"""What a person sees while a model trains: a bar on a terminal, quiet lines in a log."""

import time
from collections import deque
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.text import Text

from glassformer.wording import clock, score_name

BAR, SHORT_BAR = 20, 10
LOG_WIDTH = 100
SAMPLE_LINES = 8  # of a text with line breaks, on a terminal
LOG_LINES = 20  # in a log, one line for each twentieth of the training


def name_in_line(measure: str) -> str:
    return "val" if measure == "loss" else f"val {score_name(measure)}"


@dataclass
class Standing:
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
    """Of the best model. The model that another score chose is the one "kept"."""

    def line(self, speed: str, seconds_left: float, width: int | None) -> str:
        """On a terminal of this width the least important parts give way; a log has them all."""
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
        for size, omitted in (
            *((BAR, ()), (SHORT_BAR, ()), (BAR, (best,)), (SHORT_BAR, (best,))),
            *((BAR, (best, speed)), (SHORT_BAR, (best, speed))),
            *((0, (best, speed)), (0, (best, speed, val))),
        ):
            bar = "" if width is None else self._bar(size)
            parts = (step, bar, loss, val, best, speed, left)
            line = " ".join(part for part in parts if part and part not in omitted)
            if width is None or len(line) <= width:
                break
        return line

    def _bar(self, size: int) -> str:
        filled = round(size * self.step / self.max_steps)
        return "▰" * filled + "▱" * (size - filled)


class Waiting:
    """Shows on a terminal what is happening until it is over; in a log, only what is said."""

    def __init__(self, stream: TextIO, what: str) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._status = self._console.status(Text(f"{what} …"))

    def __enter__(self) -> "Waiting":
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def now(self, what: str) -> None:
        """Something else is happening."""
        self._status.update(Text(f"{what} …"))

    def say(self, text: str) -> None:
        """A line that stays."""
        self._console.print(Text(text))


class Progress:
    """Shows the standing after each step, and samples of text as they come."""

    def __init__(self, stream: TextIO, items_per_step: int, unit: str = "token") -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._live = (
            Live(console=self._console, refresh_per_second=8, transient=True)
            if self._console.is_terminal
            else None
        )
        self._items_per_step = items_per_step
        self._unit = unit
        self._times: deque[tuple[int, float]] = deque(maxlen=50)  # (step, when)
        self._last = ""
        self._logged = 0
        self._pause = 0.0
        self._first: tuple[int, float] | None = None  # (step, when)

    def __enter__(self) -> "Progress":
        if self._live:
            self._live.start()
            self._live.update(Text("preparing the first step …"))
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
            if self._last:
                self._console.print(Text(self._last))

    def say(self, text: str, whole: bool = True) -> None:
        """A line of its own; if it need not be whole, only as much as fits."""
        width = self._console.width if self._live else LOG_WIDTH
        if not whole and len(text) > width:
            words, _, _ = text[: width - 1].rpartition(" ")
            # What a young model writes may be one word without end, which is cut anywhere.
            text = f"{words} …" if len(words) > width // 2 else f"{text[: width - 1]}…"
        self._console.print(Text(text))

    def sample(self, heading: str, text: str) -> None:
        """What the model writes now. Code and verse keep their lines on a terminal that is wide
        enough; anything else is one line, as much as fits."""
        lines = text.expandtabs(4).strip("\n").split("\n")
        room = self._console.width - len(f"{heading} │ ")
        if not self._live or len(lines) == 1 or max(map(cell_len, lines)) > room:
            self.say(f"{heading} │ {' '.join(text.split())}", whole=False)
            return
        if len(lines) > SAMPLE_LINES:
            lines[SAMPLE_LINES - 1 :] = ["…"]
        margins = [heading, *(" " * len(heading) for _ in lines[1:])]
        self.say("\n".join(map(" │ ".join, zip(margins, lines, strict=True))))

    def show(self, standing: Standing, most: float | None = None) -> None:
        """`most` are the seconds that are left of a time limit."""
        self._times.append((standing.step, time.perf_counter() - self._pause))
        seconds = self._seconds_left(standing)
        seconds = seconds if most is None else max(0.0, min(seconds, most))
        width = self._console.width if self._live else None
        self._last = standing.line(self._speed(), seconds, width)
        if self._live:
            self._live.update(Text(self._last, overflow="ellipsis", no_wrap=True))
            return
        part = LOG_LINES * standing.step // standing.max_steps
        if part > self._logged:
            self._logged = part
            self.say(self._last)

    def _speed(self) -> str:
        """24.8k tokens/s; empty at the very first step."""
        speed = self.items_per_second
        if not speed:
            return ""
        number = f"{speed / 1000:.1f}k" if speed >= 1000 else f"{speed:.0f}"
        return f"{number} {self._unit}s/s"

    def _seconds_left(self, standing: Standing) -> float:
        """Judged by all the time since the first step: validation comes again, too."""
        now = (standing.step, time.perf_counter())
        self._first = first = self._first or now
        per_step = (now[1] - first[1]) / max(1, now[0] - first[0])
        return (standing.max_steps - standing.step) * per_step

    def not_training(self, seconds: float) -> None:
        """Time spent on validation and saving, which does not count as training."""
        self._pause += seconds

    @property
    def items_per_second(self) -> float:
        if len(self._times) < 2:
            return 0.0
        (first, begin), (last, end) = self._times[0], self._times[-1]
        return (last - first) * self._items_per_step / max(end - begin, 1e-9)
