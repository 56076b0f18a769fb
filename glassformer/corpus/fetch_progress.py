"""What a person sees while pages are fetched: a line on a terminal, quiet lines in a log."""

import shutil
import time
from collections import Counter
from typing import TextIO

from glassformer.wording import clock

BAR = 20
LOG_LINES = 20  # in a log, one line for each twentieth of the links


class FetchProgress:
    """Shows how many links have an outcome."""

    def __init__(self, stream: TextIO, total: int, done: int) -> None:
        self._stream, self._total, self._first = stream, total, done
        self._is_terminal = stream.isatty()
        self._begin = time.monotonic()
        self._shown = ""
        self._logged = LOG_LINES * done // max(1, total)

    def __enter__(self) -> "FetchProgress":
        if self._first:
            self._stream.write(f"continuing: {self._first:,} of {self._total:,} links are done.\n")
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()

    def show(self, counts: Counter[str]) -> None:
        done = sum(counts.values())
        if self._is_terminal:
            line = self.line(done, counts["fetched"])[: shutil.get_terminal_size().columns - 1]
            self._stream.write(f"\r{line.ljust(len(self._shown))}")
            self._shown = line
        elif (part := LOG_LINES * done // max(1, self._total)) > self._logged:
            self._logged = part
            self._stream.write(f"{self.line(done, counts['fetched'])}\n")
        self._stream.flush()

    def line(self, done: int, fetched: int) -> str:
        """120/7,108 ▰▱▱▱▱▱▱▱▱▱ fetched 101 (84%) 14.2 links/s ETA 8:12"""
        seconds = max(time.monotonic() - self._begin, 1e-9)
        speed = (done - self._first) / seconds
        filled = BAR * done // max(1, self._total)
        parts = [f"{done:,}/{self._total:,}"]
        parts += ["▰" * filled + "▱" * (BAR - filled)] if self._is_terminal else []
        parts += [f"fetched {fetched:,} ({fetched / max(1, done):.0%})"]
        if speed:
            left = clock((self._total - done) / speed)
            parts += [f"{speed:.1f} links/s", f"ETA {left}"]
        return " ".join(parts)
