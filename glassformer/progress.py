"""Progress for people: one line that changes on a terminal, quiet lines in a log."""

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TextIO

BAR = 20  # characters
LOG_LINES = 20  # in a log, one for each twentieth of the work
REDRAW = 0.1  # seconds: a terminal takes longer to draw a line than a small model to make a step


Notify = Callable[[str], None]
"""Reports something to the user: a line on stderr, for example."""


def silently(message: str) -> None:
    pass


def bar(done: float, total: float = 1.0, size: int = BAR) -> str:
    filled = round(size * min(1.0, done / max(total, 1.0)))
    return "▰" * filled + "▱" * (size - filled)


class ProgressLine:
    """Shows on a terminal what is happening until the `with` block ends, and then disappears, or
    leaves its last state. Everything else that is printed meanwhile goes through `write`."""

    def __init__(self, stream: TextIO, text: str = "", keeps_last: bool = False) -> None:
        self.is_terminal = stream.isatty()
        self._stream = stream
        self._text = text
        self._keeps_last = keeps_last
        self._drawn = ""  # what the terminal shows now
        self._drawn_at = 0.0
        self._logged = 0

    def __enter__(self) -> Self:
        self.show(self._text)
        self._text = ""
        return self

    def __exit__(self, *_: object) -> None:
        self._draw("")
        if self.is_terminal and self._keeps_last and self._text:
            self.write(self._text)

    @property
    def width(self) -> int:
        """The columns of the terminal without the last one: some begin a new line after it."""
        with suppress(OSError, ValueError):
            return (os.get_terminal_size(self._stream.fileno()).columns or 80) - 1
        return shutil.get_terminal_size().columns - 1

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """The line as it is now. If it belongs to work that is counted, a log has it whenever
        another twentieth is done."""
        self._text = text
        if self.is_terminal:
            if not total or time.perf_counter() - self._drawn_at >= REDRAW:
                self._draw(text)
        elif total and (part := LOG_LINES * done // total) > self._logged:
            self._logged = part
            self.write(text)

    def write(self, text: str) -> None:
        """A line that stays."""
        shown = self._drawn
        self._draw("")
        self._stream.write(f"{text}\n")
        self._stream.flush()
        self._draw(shown)

    def _draw(self, text: str) -> None:
        text = text[: self.width] if self.is_terminal else ""
        if text != self._drawn:
            end = "" if text else "\r"
            self._stream.write(f"\r{text.ljust(len(self._drawn))}{end}")
            self._stream.flush()
            self._drawn, self._drawn_at = text, time.perf_counter()
