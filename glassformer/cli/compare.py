"""glassformer compare: several models on the same data, side by side."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.known_names import known_model
from glassformer.cli.output import print_json, showing_progress


def compare(
    models: Annotated[
        list[Path],
        options.argument(
            "MODELS", "Runs or model folders, all for the same task.", callback=known_model
        ),
    ],
    data: options.DataToRead,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.Encoding = None,
    baseline: Annotated[
        bool,
        options.output(
            None,
            "Add logistic regression on TF-IDF or pixels, for classifiers (default: yes).",
        ),
    ] = True,
    as_json: options.JsonLines = False,
) -> None:
    """Compare models on the same data.

    Prints a table with confidence intervals; the best model comes first.

    Examples:
      glassformer compare runs/bag-reviews runs/bert-reviews --data test.csv
      glassformer compare runs/gpt-notes runs/rnn-lm-notes --data held_out.txt --json
    """
    values = {k: v for k, v in locals().items() if k not in ("models", "as_json")}

    from glassformer import api

    with showing_progress("evaluating"):
        table = api.compare(models, **values)
    if as_json:
        for line in table.as_json():
            print_json(line)
    else:
        typer.echo(table.text())
