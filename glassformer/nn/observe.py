"""Looking into a call of a model, and switching off parts of it, without changing the model.

    with listening([layer.tap]) as (heard,):
        model(ids)
    heard[0]                                        (B, H, T, S)

    with without_heads({layer.tap: [3]}):
        model(ids)                                  head 3 of this layer contributes nothing

    with changing({layer.tap: lambda weights: …}):
        model(ids)                                  computed with other weights

All belong to the context of the call, not to the module: two threads can observe one model at the
same time, and each hears only its own calls. Listening never changes an output.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from torch import Tensor


class Tap:
    """A place in a model that can be observed. Without a listener it costs one lookup."""

    @property
    def is_listening(self) -> bool:
        """Whether this context has a listener, and the layer must compute what it hears."""
        return self in _listeners.get()

    def hear(self, values: Tensor) -> None:
        """Pass `values` to all listeners of this context."""
        for listen in _listeners.get().get(self, ()):
            listen(values.detach())

    @property
    def is_changing(self) -> bool:
        """Whether this context changes what passes here, and the layer must compute it."""
        return self in _changes.get()

    def changed(self, values: Tensor) -> Tensor:
        """What the layer goes on with: `values`, unless this context changes them."""
        change = _changes.get().get(self)
        return values if change is None else change(values)

    def without_silent(self, heads: Tensor) -> Tensor:
        """The outputs of heads (B, H, T, d), those that this context switched off set to zero."""
        silent = _silent.get().get(self)
        if silent is None:
            return heads
        kept = heads.clone()
        kept[:, list(silent)] = 0
        return kept


Listen = Callable[[Tensor], None]
Change = Callable[[Tensor], Tensor]
_listeners: ContextVar[Mapping[Tap, tuple[Listen, ...]]]
_listeners = ContextVar("_listeners", default=MappingProxyType({}))
_silent: ContextVar[Mapping[Tap, Sequence[int]]]
_silent = ContextVar("_silent", default=MappingProxyType({}))
_changes: ContextVar[Mapping[Tap, Change]]
_changes = ContextVar("_changes", default=MappingProxyType({}))


@contextmanager
def listening(
    taps: Iterable[Tap], keep: Callable[[Tensor], Tensor] = lambda values: values
) -> Iterator[list[list[Tensor]]]:
    """Collect what each tap hears inside the `with` block: one list per tap. `keep` takes the part
    that is wanted, so that the rest is not held in memory."""
    chosen = list(taps)
    heard = [list[Tensor]() for _ in chosen]

    def listener(seen: list[Tensor]) -> Listen:
        return lambda values: seen.append(keep(values))

    listeners = dict(_listeners.get())
    for tap, seen in zip(chosen, heard, strict=True):
        listeners[tap] = (*listeners.get(tap, ()), listener(seen))
    token = _listeners.set(listeners)
    try:
        yield heard
    finally:
        _listeners.reset(token)


@contextmanager
def without_heads(heads: Mapping[Tap, Sequence[int]]) -> Iterator[None]:
    """Switch off heads of attention layers, named by the layers' taps, inside the `with` block, in
    addition to those that are off already."""
    silent = dict(_silent.get())
    for tap, numbers in heads.items():
        silent[tap] = (*silent.get(tap, ()), *numbers)
    token = _silent.set(silent)
    try:
        yield
    finally:
        _silent.reset(token)


@contextmanager
def changing(changes: Mapping[Tap, Change]) -> Iterator[None]:
    """Pass what comes to each tap through a function inside the `with` block. Unlike a listener, it
    gets tensors with their gradients."""
    token = _changes.set({**_changes.get(), **changes})
    try:
        yield
    finally:
        _changes.reset(token)
