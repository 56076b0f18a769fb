"""What a person sees while a model trains: the numbers of each step, and samples as they come."""

import time
from collections import deque
from dataclasses import dataclass
from typing import TextIO

from rich.cells import cell_len

from glassformer.progress import BAR, ProgressLine, bar
from glassformer.wording import clock, score_name

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
    """What the best model is called. The model that another score chose is the one "kept"."""

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

    def say(self, text: str, whole: bool = True) -> None:
        """A line of its own; if it need not be whole, only as much as fits."""
        width = self._line.width if self._line.is_terminal else LOG_WIDTH
        if not whole and len(text) > width:
            words, _, _ = text[: width - 1].rpartition(" ")
            # What a young model writes may be one word without end, which is cut anywhere.
            text = f"{words} …" if len(words) > width // 2 else f"{text[: width - 1]}…"
        self._line.say(text)

    def sample(self, heading: str, text: str) -> None:
        """What the model writes now. Code and verse keep their lines on a terminal that is wide
        enough; anything else is one line, as much as fits."""
        lines = text.expandtabs(4).strip("\n").split("\n")
        room = self._line.width - len(f"{heading} │ ")
        if not self._line.is_terminal or len(lines) == 1 or max(map(cell_len, lines)) > room:
            self.say(f"{heading} │ {' '.join(text.split())}", whole=False)
            return
        if len(lines) > SAMPLE_LINES:
            lines[SAMPLE_LINES - 1 :] = ["…"]
        margins = [heading, *(" " * len(heading) for _ in lines[1:])]
        self.say("\n".join(map(" │ ".join, zip(margins, lines, strict=True))))

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
        number = f"{speed / 1000:.1f}k" if speed >= 1000 else f"{speed:.0f}"
        return f"{number} {self._unit}s/s"

    def not_training(self, seconds: float) -> None:
        """Time spent on validation and saving, which does not count as training."""
        self._pause += seconds

    @property
    def items_per_second(self) -> float:
        if len(self._times) < 2:
            return 0.0
        (first, begin), (last, end) = self._times[0], self._times[-1]
        return (last - first) * self._items_per_step / max(end - begin, 1e-9)
