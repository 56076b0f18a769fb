"""glassformer fill: which word is missing?"""

from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.output import note, print_candidates, print_json
from glassformer.cli.stdin import read_lines


def fill(
    model: options.Model,
    text: Annotated[
        str | None,
        options.argument(
            "TEXT",
            "Text that contains [MASK], or file of such lines (default: each line of stdin).",
        ),
    ] = None,
    top: Annotated[
        int, options.count("Number of most likely tokens to print.", rich_help_panel="Output")
    ] = 5,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
) -> None:
    """Predict the token hidden by each [MASK].

    Examples:
      glassformer fill runs/bert-corpus "The smooth blue [MASK]."
      glassformer fill runs/bert-corpus --top 10 --json < masked.txt
    """
    from glassformer.predict.masked import MaskedPredictor
    from glassformer.tasks import load_for

    predictor = load_for(model, MaskedPredictor, "fill", quantize)
    for number, line in enumerate(read_lines(text), 1):
        if len(predictor.parts(line)) < 2 and (text is None or text != line):
            # The other lines are still worth an answer.
            name = predictor.preprocessing.mask_name
            note(f"{'stdin' if text is None else text}, line {number:,}: no {name} found.")
            masks = []
        else:
            masks = predictor.fill(line, top)
        if as_json:
            guesses = [[guess.as_json() for guess in mask] for mask in masks]
            print_json({"text": line, "guesses": guesses})
            continue
        if not masks:
            typer.echo("")
        for position, mask in enumerate(masks, 1):
            if len(masks) > 1:
                typer.echo(f"--- {position} ---")
            print_candidates(mask)
