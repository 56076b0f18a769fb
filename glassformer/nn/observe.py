"""Observing attention: record the weights of chosen layers without changing the output.

    with listening([layer.tap]) as (heard,):
        model(ids)
    heard[0]                                        (B, H, T, S)

Listeners belong to the context of the call, not to the module: two threads can observe one model at
the same time, and each hears only its own calls.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from torch import Tensor


class Tap:
    """A place in a model that can be observed. Without a listener it costs one lookup."""

    @property
    def is_listening(self) -> bool:
        """Whether this context has a listener, and the layer must compute its weights."""
        return self in _listeners.get()

    def hear(self, weights: Tensor) -> None:
        """Pass `weights` to all listeners of this context."""
        for seen in _listeners.get().get(self, ()):
            seen.append(weights.detach())


Listeners = Mapping[Tap, tuple[list[Tensor], ...]]
_listeners: ContextVar[Listeners] = ContextVar("_listeners", default=MappingProxyType({}))


@contextmanager
def listening(taps: Iterable[Tap]) -> Iterator[list[list[Tensor]]]:
    """Collect what each tap hears inside the `with` block: one list per tap."""
    chosen = list(taps)
    heard = [list[Tensor]() for _ in chosen]
    listeners = dict(_listeners.get())
    for tap, seen in zip(chosen, heard, strict=True):
        listeners[tap] = (*listeners.get(tap, ()), seen)
    token = _listeners.set(listeners)
    try:
        yield heard
    finally:
        _listeners.reset(token)
