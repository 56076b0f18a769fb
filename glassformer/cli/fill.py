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
    from glassformer.text.framing import MASK

    predictor = load_for(model, MaskedPredictor, "fill")
    for number, line in enumerate(read_lines(text), 1):
        if text is None and MASK not in line:  # of many lines, the others are to be answered
            typer.echo(f"note: stdin, line {number:,}: there is no {MASK} in it.", err=True)
            found = []
        else:
            found = predictor.fill(line, top)
        if as_json:
            guesses = [[guess.as_json() for guess in mask] for mask in found]
            typer.echo(json.dumps({"text": line, "guesses": guesses}, ensure_ascii=False))
            continue
        if not found:
            typer.echo("")
        for place, mask in enumerate(found, 1):
            if len(found) > 1:
                typer.echo(f"--- {place} ---")
            for guess in mask:
                bar = "█" * round(40 * guess.probability)
                typer.echo(f"{guess.probability:7.2%}  {guess.token!r:16} {bar}")
