"""glassformer demo: the main job, on the text that comes with Python."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    max_steps: Annotated[int, typer.Option(help="Updates of the weights.")] = 600,
) -> None:
    """Train a small GPT on Python's own reference text, and let it write."""
    from glassformer.demo import run_demo

    raise typer.Exit(run_demo(out, max_steps, sys.stdout))
