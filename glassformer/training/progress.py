"""What a person sees while a model trains: a bar on a terminal, quiet lines in a log."""

import time
from collections import deque
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from glassformer.wording import clock

BAR = 20
LOG_LINES = 20  # in a log, one line for each twentieth of the training


@dataclass
class Standing:
    """The numbers of the progress line."""

    step: int
    max_steps: int
    loss: float | None = None
    val_loss: float | None = None
    best_loss: float | None = None
    best_step: int = 0

    def line(self, tokens_per_second: float, seconds_left: float, bar: bool) -> str:
        parts = [f"step {self.step:,}/{self.max_steps:,}"]
        if bar:
            filled = round(BAR * self.step / self.max_steps)
            parts.append("▰" * filled + "▱" * (BAR - filled))
        if self.loss is not None:
            parts.append(f"loss {self.loss:.2f}")
        if self.val_loss is not None:
            parts.append(
                f"val {self.val_loss:.2f} (best {self.best_loss:.2f} @ {self.best_step:,})"
            )
        parts += [f"{tokens_per_second / 1000:.1f}k tok/s", f"ETA {clock(seconds_left)}"]
        return " ".join(parts)


class Progress:
    """Shows the standing after each step, and samples of text as they come."""

    def __init__(self, stream: TextIO, tokens_per_step: int) -> None:
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._live = (
            Live(console=self._console, refresh_per_second=8, transient=True)
            if self._console.is_terminal
            else None
        )
        self._tokens_per_step = tokens_per_step
        self._times: deque[tuple[int, float]] = deque(maxlen=50)  # (step, when)
        self._last = ""
        self._logged = 0
        self._pause = 0.0

    def __enter__(self) -> "Progress":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
            if self._last:
                self._console.print(Text(self._last))

    def say(self, text: str) -> None:
        self._console.print(Text(text))

    def show(self, standing: Standing) -> None:
        self._times.append((standing.step, time.perf_counter() - self._pause))
        speed = self.tokens_per_second
        left = standing.max_steps - standing.step
        seconds = left * self._tokens_per_step / speed if speed else 0.0
        self._last = standing.line(speed, seconds, bar=self._live is not None)
        if self._live:
            self._live.update(Text(self._last, overflow="ellipsis", no_wrap=True))
            return
        part = LOG_LINES * standing.step // standing.max_steps
        if part > self._logged:
            self._logged = part
            self.say(self._last)

    def not_training(self, seconds: float) -> None:
        """Time spent on validation and saving, which says nothing about the speed of a step."""
        self._pause += seconds

    @property
    def tokens_per_second(self) -> float:
        if len(self._times) < 2:
            return 0.0
        (first, begin), (last, end) = self._times[0], self._times[-1]
        return (last - first) * self._tokens_per_step / max(end - begin, 1e-9)
