"""glassformer report: a page about one run, or about several side by side."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.known_names import known_run
from glassformer.cli.output import note, print_json


def report(
    runs: Annotated[
        list[Path],
        options.argument("RUNS", "Run folders, one or several.", callback=known_run),
    ],
    out: Annotated[
        Path | None,
        options.output(
            "FILE",
            "File to write, .html or .json (default: report.html in the folder of a single run).",
        ),
    ] = None,
    as_json: options.JsonObject = False,
) -> None:
    """Write a page about a run: curves, samples, scores and mistakes.

    Several runs are shown side by side. The page works offline.

    Examples:
      glassformer report runs/bag-reviews
      glassformer report runs/bag-reviews runs/bert-reviews --out both.html
    """
    from glassformer import api

    only_json = as_json and out is None
    page = api.read_report(runs, None) if only_json else api.report(runs, out)
    if page.path is not None:
        typer.echo(f"wrote {page.path}", err=as_json)
    for name, run in zip(page.names, page.runs, strict=True):
        note(*(f"{name}: {text}" for text in run["notes"]))
    if as_json:
        print_json(page.as_json())
