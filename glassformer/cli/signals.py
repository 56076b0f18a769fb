"""Ctrl-C and SIGTERM end a verb with one line; training has its own handler."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from glassformer.runtime.interruptions import SIGNALS, outside_imports


def heed_signals(message: str = "stopped.") -> None:
    """Print `message` when a signal ends the program."""

    def stop(number: int) -> None:
        os.write(2, f"{message}\n".encode())  # not print: a stream may be in the middle of a write
        sys.exit(128 + number)

    for number in SIGNALS:
        signal.signal(number, outside_imports(stop))


@contextmanager
def interruptible(is_live: bool) -> Iterator[None]:
    """While someone types at a terminal, Ctrl-C ends only what happens inside, not the program."""
    if not is_live:
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        os.write(2, b" (stopped)")
    finally:
        signal.signal(signal.SIGINT, before)
