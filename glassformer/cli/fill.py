"""glassformer fill: which word is missing?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import count, read_lines


def fill(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    text: Annotated[
        str | None, typer.Argument(help="A text with [MASK] in it; else each line of stdin.")
    ] = None,
    top: Annotated[int, typer.Option(parser=count, help="Show the N likeliest tokens.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Guess what stands behind [MASK]."""
    from glassformer.predict import load_for
    from glassformer.predict.masked import MaskedPredictor

    predictor = load_for(model, MaskedPredictor, "fill")
    for line in read_lines(text):
        found = predictor.fill(line, top)
        if as_json:
            guesses = [[guess.as_json() for guess in mask] for mask in found]
            typer.echo(json.dumps({"text": line, "guesses": guesses}, ensure_ascii=False))
            continue
        for number, mask in enumerate(found, 1):
            if len(found) > 1:
                typer.echo(f"--- {number} ---")
            for guess in mask:
                bar = "█" * round(40 * guess.probability)
                typer.echo(f"{guess.probability:7.2%}  {guess.token!r:16} {bar}")
