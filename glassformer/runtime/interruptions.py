"""Ctrl-C and SIGTERM: what happens when one comes."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def outside_imports(handle: Callable[[int], None]) -> Callable[[int, FrameType | None], None]:
    """A handler of signals that calls `handle`, which raises an exception. In the middle of an
    import it is called later: the import would swallow the exception, or fail."""

    def heed(number: int, frame: FrameType | None) -> None:
        if _is_importing(frame):
            threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        else:
            handle(number)

    return heed


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
