"""glassformer verify: would this run come out the same again?"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def verify(
    run: Annotated[Path, typer.Argument(help="A run.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Train the last interval of a run again and compare every bit."""
    from glassformer.training.run_folder import RunFolder
    from glassformer.training.verify import verify as replay

    verdict = replay(RunFolder(run), sys.stderr)
    typer.echo(json.dumps(verdict.as_json()) if as_json else verdict.text())
    raise typer.Exit(0 if verdict.identical else 1)
