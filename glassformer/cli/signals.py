"""Ctrl-C and SIGTERM end a verb with one line; training has its own handler."""

import os
import signal
import sys
import threading
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


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
