"""glassformer score: how likely is a text?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import read_text


def score(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    text: Annotated[
        str | None, typer.Argument(help="Text to score; read from stdin if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how likely a text is: token by token, in total, as perplexity and bits per byte."""
    from glassformer.predict import load

    found = load(model).score(read_text(text))
    if as_json:
        typer.echo(json.dumps(found.as_json(), ensure_ascii=False))
        return
    for token, logprob in zip(found.tokens, found.logprobs, strict=True):
        value = found.first_logprob if logprob is None else logprob
        note = "  (given the begin of text; not in the total)" if logprob is None else ""
        shown = "       -" if value is None else f"{value:8.3f}"
        typer.echo(f"{shown}  {token!r}{note}")
    perplexity = "-" if found.perplexity is None else f"{found.perplexity:.3f}"
    typer.echo(
        f"total {found.total:.3f}  perplexity {perplexity}  bits per byte {found.bits_per_byte:.3f}"
    )
