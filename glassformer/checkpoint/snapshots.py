"""Snapshots: the weights of a model at a few steps of its training, to look at how it learned.

    snapshots/step-0.safetensors       before the first step
    snapshots/step-1.safetensors …     after some of the others

They contain nothing but weights: training continues from checkpoints, never from these.
"""

import re
from pathlib import Path

from torch import nn

from glassformer.atomic_files import write_file
from glassformer.checkpoint.model_folder import load_model, weights_file
from glassformer.errors import GlassformerError

SNAPSHOTS = "snapshots"  # in a run's folder
NAME = re.compile(r"step-(\d+)\.safetensors")


def save_snapshot(run: Path, step: int, model: nn.Module) -> None:
    """Write the weights of a model, whole or not at all."""
    write_file(run / SNAPSHOTS / f"step-{step}.safetensors", weights_file(model))


def snapshots_of(run: Path) -> list[tuple[int, Path]]:
    """(step, file), oldest first."""
    folder = run / SNAPSHOTS
    files = folder.iterdir() if folder.is_dir() else ()
    matches = [(NAME.fullmatch(file.name), file) for file in files]
    return sorted((int(match[1]), file) for match, file in matches if match)


def forget_snapshots(run: Path, after: int) -> None:
    """Delete the snapshots of later steps, and what a kill has left half-written."""
    for step, file in snapshots_of(run):
        if step > after:
            file.unlink()
    for left_by_a_kill in (run / SNAPSHOTS).glob(".step-*"):
        left_by_a_kill.unlink()


def load_snapshot(run: Path, file: Path) -> nn.Module:
    """The model of a run with the weights of a snapshot."""
    try:
        return load_model(run, file).model
    except GlassformerError as error:
        raise GlassformerError(
            f"{error} Or delete it: the other snapshots are shown without it."
        ) from None
