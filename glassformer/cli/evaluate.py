"""glassformer evaluate: how good is a model on data that it has not seen?"""

from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.arguments import accepted
from glassformer.cli.output import note, print_result
from glassformer.errors import UsageError


def evaluate(
    model: options.Model,
    data: options.Data = None,
    source: options.Source = None,
    target: options.Target = None,
    source_column: options.SourceColumn = None,
    target_column: options.TargetColumn = None,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.Encoding = None,
    context_length: Annotated[
        int | None,
        typer.Option(
            **options.COUNT,
            help="Context of a language model, in tokens (default: the longest it supports).",
            rich_help_panel="Evaluation",
        ),
    ] = None,
    as_json: options.JsonObject = False,
) -> None:
    """Evaluate a model on held-out data.

    Depending on its task, prints loss and perplexity, accuracy and F1, or BLEU and chrF.

    Examples:
      glassformer evaluate runs/gpt-notes --data held_out.txt
      glassformer evaluate runs/bag-reviews --data test.csv --json
      glassformer evaluate runs/translator-pairs --source test.en --target test.fr
    """
    values = {k: v for k, v in locals().items() if k not in ("model", "as_json")}

    from glassformer.tasks import load

    if not (data or source or target):
        raise UsageError(
            "no data. Pass --data FILE, or for a translator --source FILE and --target FILE."
        )
    predictor = load(model)
    found = predictor.evaluate(**accepted(values, predictor.evaluate, model))
    for each in found.notes:
        note(each)
    print_result(found, as_json)
