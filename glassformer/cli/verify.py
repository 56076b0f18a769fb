"""glassformer verify: is a run reproducible?"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.known_names import known_run
from glassformer.cli.output import print_result


def verify(
    run: Annotated[Path, options.argument("RUN", "Run to verify.", callback=known_run)],
    as_json: options.JsonObject = False,
) -> None:
    """Check that a run is reproducible.

    Trains the last interval again and compares weights and state bit by bit.

    Examples:
      glassformer verify runs/gpt-notes
      glassformer verify runs/gpt-notes --json
    """
    from glassformer.training.run_folder import RunFolder
    from glassformer.training.verify import verify as replay

    verdict = replay(RunFolder(run), sys.stderr)
    print_result(verdict, as_json)
    raise typer.Exit(0 if verdict.identical else 1)
