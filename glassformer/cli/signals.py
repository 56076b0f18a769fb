"""Ctrl-C and SIGTERM end a verb with one line; training has its own handler."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def heed_signals(message: str = "stopped.") -> None:
    """Print `message` when a signal ends the program."""

    def stop(number: int, frame: FrameType | None) -> None:
        if _is_importing(frame):  # an import would swallow the exit, or fail: try later
            threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
            return
        os.write(2, f"{message}\n".encode())  # not print: a stream may be in the middle of a write
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


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


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
