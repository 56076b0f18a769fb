"""The loop over held-out batches: nothing is learned, and a listener hears how far it is.

    for batch in held_out(model, batches, rows.batch):
        logits = model(batch.ids)                           on the model's device, without gradients

The loops that read are far below the code that owns the terminal, so a context variable holds the
listener, as for attention that is observed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Part = TypeVar("Part")
Batch = TypeVar("Batch")
Listener = Callable[[float], None]  # is given the share that has been read

_listener: ContextVar[Listener | None] = ContextVar("reading progress", default=None)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; afterwards the model is in its former mode."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def held_out(
    model: Any,
    parts: Sequence[Part],
    batch: Callable[[Part], Batch],
    sizes: Sequence[int] | None = None,
) -> Iterator[Batch]:
    """Batches on the model's device, `batch(part)` for each of the parts, while the model is being
    evaluated. `sizes` says how much work each part is; None: all are alike."""
    # A `for` statement that is left by an error closes this generator, which ends `evaluating`.
    with evaluating(model):
        for part in tracked(parts, sizes or [1] * len(parts)):
            yield _on_device(batch(part), model.device)


def _on_device(batch: Any, device: torch.device) -> Any:
    """A tensor, or a named tuple of tensors."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    return type(batch)(*(part.to(device) for part in batch))


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
