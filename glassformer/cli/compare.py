"""glassformer compare: several models on the same data, side by side."""

import json
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options


def compare(
    models: Annotated[list[Path], typer.Argument(help="Runs, or model folders, of one task.")],
    data: options.DataToRead,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.EncodingToRead = "utf-8",
    baseline: Annotated[
        bool, typer.Option(help="Beside classifiers: TF-IDF and logistic regression.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per model.")] = False,
) -> None:
    """Show models side by side, with a confidence interval; classifiers beside a baseline."""
    from glassformer.predict.compare import compare as measure

    table = measure(models, data, text_column or (), label_column, encoding, baseline)
    for note in table.notes:
        typer.echo(f"note: {note}", err=True)
    if as_json:
        for row in table.rows:
            typer.echo(json.dumps(row.as_json(), ensure_ascii=False))
        return
    typer.echo(table.text())
