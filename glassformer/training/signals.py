"""Ctrl-C and SIGTERM during training: the step under way is finished and saved, then it stops."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from glassformer.runtime import processes
from glassformer.runtime.interruptions import SIGNALS, on_signals


class Interruption(BaseException):
    """A signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside, a signal raises an Interruption: there is nothing that would have to be finished.
    Further signals are ignored until that has been reported."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interruption(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    on_signals(stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def without_handlers() -> Iterator[None]:
    """Inside, a signal ends the process at once. Handlers in Python have to wait for calls into
    torch to return, and waiting for another process may take for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StopRequest:
    """Whether a signal asked the training to stop. A second signal ends it at once."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Listen to signals inside the `with` block. Only the main thread of a program receives
        them: a training in another one runs to its end."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self.listen()
        try:
            yield
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():
                    signal.signal(number, handler)

    def listen(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            signal.signal(number, self._stop)

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
