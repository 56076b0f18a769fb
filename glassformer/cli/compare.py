"""glassformer compare: several models on the same data, side by side."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.arguments import accepted
from glassformer.cli.output import note, print_json


def compare(
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODELS", help="Runs or model folders, all for the same task."),
    ],
    data: options.DataToRead,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.Encoding = None,
    baseline: Annotated[
        bool,
        options.output(
            help="Add a TF-IDF and logistic regression baseline to text classifiers (default: "
            "baseline)."
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
    values = {k: v for k, v in locals().items() if k not in ("models", "baseline", "as_json")}

    from glassformer.compare import compare as measure
    from glassformer.tasks import predictor_of

    arguments = accepted(values, predictor_of(models[0]).evaluate, models[0])
    table = measure(models, arguments, baseline)
    for each in table.notes:
        note(each)
    if as_json:
        for line in table.lines:
            print_json(line.as_json())
    else:
        typer.echo(table.text())
