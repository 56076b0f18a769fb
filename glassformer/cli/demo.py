"""glassformer demo: train and generate, on text that comes with Python."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.options import count, option, switch
from glassformer.cli.output import print_json


def demo(
    out: Annotated[Path, option("FOLDER", "Run folder.")] = Path("runs/demo"),
    max_steps: Annotated[int | None, count("Number of training steps (default: 600).")] = None,
    force: Annotated[bool, switch("--force", "Train again from the start.")] = False,
    as_json: Annotated[bool, switch("--json", "Print the result as one JSON object.")] = False,
) -> None:
    """Train a small GPT on Python's manual, then generate text.

    Examples:
      glassformer demo
      glassformer demo --max-steps 100 --out runs/short-demo
    """
    from glassformer.demo import show_demo, train_demo

    stream = sys.stderr if as_json else sys.stdout
    outcome = train_demo(out, max_steps, force, stream)
    if outcome is not None and outcome.stopped_by is not None:
        typer.echo(outcome.summary())
        raise typer.Exit(outcome.exit_code)
    result = show_demo(out, stream)
    if as_json:
        print_json(result)
