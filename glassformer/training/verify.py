"""Is a run what its recipe makes? Train its last interval again, and compare every bit.

state at step a  →  train  →  state at step b, again     the same as the one that was saved?
"""

import shutil
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import torch
from torch import Tensor

from glassformer.checkpoint.model_folder import load_model
from glassformer.checkpoint.training_state import load_state
from glassformer.errors import GlassformerError
from glassformer.tasks.recipe import RECIPE
from glassformer.training.preparation import DATA, load_objective
from glassformer.training.run import train_on
from glassformer.training.run_folder import RunFolder, changes_between, fingerprint


@dataclass(frozen=True)
class Verdict:
    """The result of replaying the steps after `first`, up to `last`."""

    run: str
    first: int
    last: int
    identical: bool
    differs_at: int | None = None
    """The first step whose loss differs; None if only the state differs, or nothing does."""
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        first, last = self.first + 1, self.last
        steps = f"steps {first:,} to {last:,}" if first < last else f"step {last:,}"
        steps += f" of {self.run}, trained again,"
        if self.identical:
            return f"identical: {steps} gave the same weights and state, bit for bit."
        where = f"at step {self.differs_at:,}" if self.differs_at else f"after step {self.last:,}"
        return f"different: {steps} differ {where}: {self.reason}."


def verify(run: RunFolder, stream: TextIO) -> Verdict:
    """Replay from the last state but one (or the beginning) to the last, in a temporary place."""
    if not run.exists:
        raise GlassformerError(run.missing())
    states = run.checkpoints()
    if not states:
        raise GlassformerError(f"{run.path} has no checkpoint yet: there is nothing to verify.")
    last, first = states[-1][0], states[-2][0] if len(states) > 1 else 0
    verdict = partial(Verdict, str(run.path), first, last)
    saved = [run.state(step, run.cure(step)) for step in (last, first) if step]
    changed = [
        key
        for state in saved
        for key, *_ in changes_between(state.standing.recipe, fingerprint(run.recipe(), state.step))
    ]
    if changed:
        names = ", ".join(dict.fromkeys(changed))
        why = f"{RECIPE} has changed since then ({names}), so the states cannot be compared"
        return verdict(False, None, why)
    load_objective(run.recipe(), run.path)  # reports damage with its path, not that of the copy
    if saved[0].standing.best_step is not None:
        load_model(run.path)  # the best model so far: all of it is checked

    with TemporaryDirectory(prefix="glassformer-") as folder:
        copy = RunFolder(Path(folder) / run.path.name)
        _copy(run, copy, first)
        outcome = train_on(copy, stream, until=last)
        if outcome.stopped_by is not None:
            raise SystemExit(outcome.exit_code)
        again = load_state(copy.checkpoint(last))
    differs_at, reason = _compare(load_state(run.checkpoint(last)), again, last)
    return verdict(reason is None, differs_at, reason)


def _copy(run: RunFolder, copy: RunFolder, first: int) -> None:
    """All that a training needs to continue from step `first`; its curves are reported nowhere,
    and it keeps no snapshots."""
    copy.path.mkdir()
    copy.write_recipe(run.recipe().with_training(report_to=(), snapshots=0))
    shutil.copytree(run.path / DATA, copy.path / DATA)
    if first:
        shutil.copytree(run.checkpoint(first), copy.checkpoint(first))


def _compare(
    saved: dict[str, Any], again: dict[str, Any], last: int
) -> tuple[int | None, str | None]:
    """The first step that differs, and why; None and None if all is the same."""
    before, now = saved["standing"], again["standing"]
    why = _why(before["machine"], now["machine"])
    losses = list(zip(reversed(before["trace"]), reversed(now["trace"]), strict=False))
    different = [last - ago for ago, (old, new) in enumerate(losses) if old != new]
    if different:
        step = min(different)
        old, new = losses[last - step]
        return step, f"its loss was {old!r} and is now {new!r}. {why}"
    for standing in (before, now):  # how often one logs and saves, where, and how long it took
        for key in ("trace", "losses", "machine", "seconds"):
            del standing[key]
    if (name := first_difference(saved, again)) is not None:
        return None, f"the losses are the same, but {name} is not. {why}"
    return None, None


def _why(before: dict[str, str], now: dict[str, str]) -> str:
    changed = [
        f"{key} was {before.get(key)} and is now {value}"
        for key, value in now.items()
        if before.get(key) != value
    ]
    if changed:
        return f"The machine has changed: {'; '.join(changed)}"
    return (
        "The machine is the same, so the saved state was changed, or a computation is not "
        "deterministic"
    )


def first_difference(one: Any, other: Any, name: str = "") -> str | None:
    """The dotted name of the first value that is not the same in both."""
    match one, other:
        case Tensor(), Tensor():
            return None if _same_bits(one, other) else name
        case dict(), dict() if one.keys() == other.keys():
            pairs = ((f"{name}.{key}" if name else str(key), one[key], other[key]) for key in one)
        case (list(), list()) | (tuple(), tuple()) if len(one) == len(other):
            pairs = (
                (f"{name}.{index}", *pair)
                for index, pair in enumerate(zip(one, other, strict=True))
            )
        case _:
            return None if one == other else name
    differences = (first_difference(mine, theirs, key) for key, mine, theirs in pairs)
    return next((difference for difference in differences if difference is not None), None)


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return torch.equal(*(tensor.reshape(-1).view(torch.uint8) for tensor in (one, other)))
