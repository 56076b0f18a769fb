"""glassformer inspect: what did the model attend to?"""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from glassformer.cli import options
from glassformer.cli.output import note, print_result
from glassformer.cli.stdin import read_text
from glassformer.errors import UsageError

_view = partial(options.option, rich_help_panel="View")


def inspect(
    run: options.Model,
    view: Annotated[
        Literal["alignment"],
        _view(None, "What to show: the source words that each word of a translation attends to."),
    ],
    text: Annotated[str | None, options.argument("INPUT", "Source text (default: stdin).")] = None,
    target: Annotated[
        str | None, _view("TEXT", "Translation to align (default: the model's own).")
    ] = None,
    layer: Annotated[
        int | None, _view("N", "Layer, counted from 0 (default: mean over all).", min=0)
    ] = None,
    head: Annotated[
        int | None, _view("N", "Head, counted from 0 (default: mean over all).", min=0)
    ] = None,
    words: Annotated[bool, _view(None, "Show whole words instead of tokens.", "--words")] = False,
    out: Annotated[
        Path | None,
        options.output(
            "FILE",
            "File to write; its extension sets the format: .html, .png, .svg or .json.",
        ),
    ] = None,
    as_json: options.JsonObject = False,
) -> None:
    """Look inside a model: print or draw what it attends to.

    Examples:
      glassformer inspect runs/translator-pairs "A man sleeps." --view alignment
      glassformer inspect runs/translator-pairs "A man sleeps." --view alignment --out a.html
    """
    from glassformer.predict.translate import TranslatePredictor
    from glassformer.story.alignment import check_ending, draw
    from glassformer.tasks import load_for

    if out is not None:
        check_ending(out)
    text = read_text(text)
    if not text.strip():
        raise UsageError("the text is empty.")
    if target is not None and not target.strip():
        raise UsageError("--target is empty. Leave it out to align the model's own translation.")
    translator = load_for(run, TranslatePredictor, "show an alignment")
    found = translator.align(text, target=target, layer=layer, head=head, words=words)
    if found.is_cut_off:
        note("the translation reached the maximum length and was cut off.")
    if out is not None:
        draw(found, out)
        typer.echo(f"wrote {out}", err=True)
    if as_json or out is None:
        print_result(found, as_json)
