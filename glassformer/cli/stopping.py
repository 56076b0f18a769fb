"""Ctrl-C and SIGTERM end a verb with one line; a training has a handler of its own."""

import os
import signal
import sys
import threading
from types import FrameType


def heed_signals(last_words: str = "stopped.") -> None:
    """From now on, what is said when a signal ends the program."""

    def stop(number: int, frame: FrameType | None) -> None:
        if _is_importing(frame):  # a half-imported module swallows it, or fails strangely: later
            threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
            return
        os.write(2, f"{last_words}\n".encode())  # a stream may be in the middle of a write
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
