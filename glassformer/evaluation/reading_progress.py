"""How far an evaluation has read, for whoever shows it.

The loops that read are far below the code that owns the terminal, so a context variable holds the
listener, as for attention that is observed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Part = TypeVar("Part")
Listener = Callable[[float], None]  # is given the share that has been read

_listener: ContextVar[Listener | None] = ContextVar("reading progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def tracked(parts: Iterable[Part], sizes: Sequence[int]) -> Iterator[Part]:
    """The parts of what is read, each reported by its size when the next one is asked for."""
    listener, total, done = _listener.get(), max(1, sum(sizes)), 0
    for part, size in zip(parts, sizes, strict=True):
        yield part
        done += size
        if listener is not None:
            listener(done / total)
