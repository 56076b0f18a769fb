"""Ctrl-C and SIGTERM during training: the step under way is finished and saved, then it stops."""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from glassformer.runtime import processes
from glassformer.runtime.interruptions import SIGNALS, outside_imports


class Interruption(BaseException):
    """A signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@contextmanager
def _handled(handlers: Mapping[int, Any]) -> Iterator[None]:
    """Signals have these handlers inside the `with` block, and their former ones afterwards. Only
    the main thread of a program receives signals: in another one, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, a signal raises an Interruption: there is nothing that would have to be finished.
    Further signals are ignored until that has been reported."""

    def stop(number: int) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interruption(number)

    with _handled(dict.fromkeys(SIGNALS, outside_imports(stop))):
        yield


@contextmanager
def without_handlers() -> Iterator[None]:
    """Inside, a signal ends the process at once. Handlers in Python have to wait for calls into
    torch to return, and waiting for another process may take for ever."""
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    with _handled(dict.fromkeys(numbers, signal.SIG_DFL)):
        yield


class StopRequest:
    """Whether a signal asked the training to stop. A second signal ends it at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Listen to signals inside the `with` block. A training in another thread than the main
        one runs to its end."""
        with _handled(dict.fromkeys(SIGNALS, self._stop)):
            yield

    def _stop(self, number: int, frame: FrameType | None = None) -> None:
        if self.signal is not None:
            if processes.here() is not None:  # the launcher may repeat what the terminal has sent
                return
            raise SystemExit(128 + number)
        self.signal = number
        if not processes.is_first():
            return
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        # Not through a stream: the signal may have come while one was being written to.
        os.write(2, f"{name}: stopping after this step …\n".encode())
