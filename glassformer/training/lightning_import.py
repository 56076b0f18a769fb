"""Lightning, imported late and in a third of the time.

Most of the seconds go into torchmetrics, which imports scipy, matplotlib and transformers, and
which no run uses; many of the rest go into collecting garbage among modules that all stay.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from types import ModuleType
from typing import TextIO

from torch import nn

from glassformer.training.outcome import Outcome
from glassformer.training.run_folder import RunFolder
from glassformer.training.timing import TrySteps

COMMAND_LINE = "glassformer.cli.main"
USED = ("Metric", "MetricCollection")  # what Lightning imports from torchmetrics

Fit = Callable[[RunFolder, TextIO, int | None], Outcome]


def import_fit(is_own_process: bool | None = None) -> Fit:
    """`training.fit.fit`, the part of a run that needs Lightning."""
    if is_own_process is None:
        is_own_process = COMMAND_LINE in sys.modules
    with _no_garbage_collection():
        # Lightning does not recognise real metrics if it was imported without them: that is fine
        # in a process of our own, but not in a Python session.
        if is_own_process and not sys.modules.keys() & {"torchmetrics", "lightning"}:
            with suppress(Exception), _empty_torchmetrics():
                from glassformer.training.fit import fit as quickly_imported

                return quickly_imported
            # This Lightning needs more of torchmetrics: it is imported again from the start.
            for name in [each for each in sys.modules if each.split(".")[0] == "lightning"]:
                del sys.modules[name]
        from glassformer.training.fit import fit

        return fit


def import_trial() -> TrySteps:
    """`training.trial_steps.try_steps`, which tries steps of the same loop."""
    import_fit()
    from glassformer.training.trial_steps import try_steps

    return try_steps


@contextmanager
def _empty_torchmetrics() -> Iterator[None]:
    """In place of the real package while Lightning is imported."""
    empty = ModuleType("torchmetrics")
    empty.__dict__["__version__"] = metadata.version("torchmetrics")
    empty.__dict__.update({name: type(name, (nn.Module,), {}) for name in USED})
    sys.modules["torchmetrics"] = empty
    try:
        yield
    finally:
        del sys.modules["torchmetrics"]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
