"""glassformer evaluate: how well does a model predict a text it has not seen?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import count


def evaluate(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    data: Annotated[
        list[str], typer.Option(metavar="PATH", help="Files, folders or hub data sets; repeat.")
    ],
    text_column: Annotated[
        list[str] | None, typer.Option(help="The column of a table that holds the text; repeat.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Of text files.")] = "utf-8",
    context_length: Annotated[
        int | None, typer.Option(parser=count, help="Tokens seen at once; at most the model's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Measure loss, perplexity and bits per byte on a text."""
    from glassformer.predict import load

    found = load(model).evaluate(data, text_column or (), encoding, context_length)
    if as_json:
        typer.echo(json.dumps(found.as_json()))
        return
    typer.echo(
        f"loss {found.loss:.4f}  perplexity {found.perplexity:.3f}  "
        f"bits per byte {found.bits_per_byte:.4f}  ({found.num_tokens:,} tokens)"
    )
