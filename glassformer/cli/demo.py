"""glassformer demo: the main job, on the text that comes with Python."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import count


def demo(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    max_steps: Annotated[
        int | None, typer.Option(parser=count, help="Updates of the weights; 600.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Train it again.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
) -> None:
    """Train a small GPT on Python's own reference text, and let it write."""
    from glassformer.demo import show_demo, train_demo

    stream = sys.stderr if as_json else sys.stdout
    outcome = train_demo(out, max_steps, force, stream)
    if outcome is not None and outcome.stopped_by is not None:
        typer.echo(outcome.summary())
        raise typer.Exit(outcome.exit_code)
    shown = show_demo(out, stream)
    if as_json:
        typer.echo(json.dumps(shown, ensure_ascii=False))
