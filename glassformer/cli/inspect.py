"""glassformer inspect: what did the model look at?"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from glassformer.cli.inputs import read_text
from glassformer.errors import UsageError


def inspect(
    run: Annotated[Path, typer.Argument(help="A run, or any model folder.")],
    view: Annotated[
        Literal["alignment"],
        typer.Option(help="alignment: the source words that each word of a translation looked at."),
    ],
    text: Annotated[
        str | None,
        typer.Argument(metavar="INPUT", help="The source; read from stdin if not given."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Align this translation, not the model's own."),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=0, help="Of this layer, from 0 on; the mean if not said.")
    ] = None,
    head: Annotated[
        int | None, typer.Option(min=0, help="Of this head, from 0 on; the mean if not said.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Whole words, not tokens.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it: the ending is .html, .png, .svg or .json."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Look inside: draw or print what a model looked at while it wrote."""
    from glassformer.story.alignment import check_ending, draw

    if out is not None:
        check_ending(out)
    text = read_text(text)
    if not text.strip():
        raise UsageError("the text is empty.")
    if target is not None and not target.strip():
        raise UsageError("--target is empty. Leave it out to align the model's own translation.")
    found = _aligner(run)(text, target=target, layer=layer, head=head, words=words)
    if out is not None:
        draw(found, out)
        typer.echo(f"wrote {out}", err=True)
    if as_json:
        typer.echo(json.dumps(found.as_json(), ensure_ascii=False))
    elif out is None:
        typer.echo(found.text())


def _aligner(run: Path) -> Any:
    from glassformer.predict import VERBS, load

    predictor = load(run)
    if not hasattr(predictor, "align"):
        verbs = VERBS[type(predictor).__name__]
        raise UsageError(
            f"{run} has no alignment: it does not translate. The verbs of this model are {verbs}."
        )
    return predictor.align
