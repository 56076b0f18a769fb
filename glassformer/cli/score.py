"""glassformer score: how likely is a text?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.inputs import note_unknown, read_text


def score(
    model: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    text: Annotated[
        str | None, typer.Argument(help="Text to score; read from stdin if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show how likely a text is: token by token, in total, as perplexity and bits per byte."""
    from glassformer.predict import load_for
    from glassformer.predict.language import LanguagePredictor

    text = read_text(text)
    predictor = load_for(model, LanguagePredictor, "score")
    note_unknown(predictor.tokenizer, text)
    found = predictor.score(text)
    if as_json:
        typer.echo(json.dumps(found.as_json(), ensure_ascii=False))
        return
    for token, logprob in zip(found.tokens, found.logprobs, strict=True):
        value = found.first_logprob if logprob is None else logprob
        note = "  (given the begin of text; not in the total)" if logprob is None else ""
        shown = "       -" if value is None else f"{value:8.3f}"
        typer.echo(f"{shown}  {token!r}{note}")
    perplexity, bits = (
        "-" if value is None else f"{value:.3f}"
        for value in (found.perplexity, found.bits_per_byte)
    )
    typer.echo(f"total {found.total:.3f}  perplexity {perplexity}  bits per byte {bits}")
