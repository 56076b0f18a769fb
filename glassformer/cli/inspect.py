"""glassformer inspect: what does a model do with an input?"""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.output import note, noting_files, print_result
from glassformer.cli.stdin import read_text
from glassformer.errors import UsageError

FORMATS = "File to write; its extension sets the format: .html, .png, .svg or .json."
VIEWS = (
    "What to show, such as story, heads or lens; an unknown name lists all views of the model "
    "(default: story)."
)
OVER_TIME = "over-time"
LOOKING_BACK = "Show the input at several steps of the model's training (--view over-time)."
_view = partial(options.option, rich_help_panel="View")

Compare = Annotated[
    list[str] | None, _view("TEXT", "Sentence that shares a word with the text (may be repeated).")
]
Word = Annotated[
    str | None, _view("WORD", "Word to compare (default: the longest that is shared).")
]


def inspect(
    run: options.Model,
    text: Annotated[
        str | None,
        options.argument("INPUT", "Text to read (default: stdin), or image file."),
    ] = None,
    view: Annotated[str | None, _view("NAME", VIEWS)] = None,
    over_time: Annotated[bool | None, _view(None, LOOKING_BACK, "--over-time")] = None,
    target: Annotated[
        str | None, _view("TEXT", "Translation or caption to use (default: the model's own).")
    ] = None,
    layer: Annotated[
        int | None, _view("N", "Layer, counted from 0 (default: all, or their mean).", min=0)
    ] = None,
    head: Annotated[
        int | None, _view("N", "Head, counted from 0 (default: all, or their mean).", min=0)
    ] = None,
    words: Annotated[
        bool | None, _view(None, "Show whole words instead of tokens.", "--words")
    ] = None,
    compare: Compare = None,
    word: Word = None,
    out: Annotated[Path | None, options.output("FILE", FORMATS)] = None,
    as_json: options.JsonObject = False,
) -> None:
    """Look inside a model: what it attends to, and what each layer predicts.

    Examples:
      glassformer inspect runs/gpt-notes "The train slowly left" --out story.html
      glassformer inspect runs/translator-pairs "A man sleeps." --view alignment --out a.html
      glassformer inspect runs/vit-images photo.jpg --out story.html
    """
    values: dict[str, Any] = {"target": target, "layer": layer, "head": head, "words": words}
    values |= {"compare": compare or None, "word": word}

    from glassformer.options import accepted
    from glassformer.story.alignment import check_ending
    from glassformer.story.views import draw
    from glassformer.tasks import load

    view = _chosen(view, over_time)
    if out is not None:
        check_ending(out)
    if target is not None and not target.strip():
        raise UsageError("--target is empty. Leave it out to align the model's own translation.")
    predictor = load(run)
    chosen = predictor.view(view, run)
    show = getattr(predictor, chosen.method)
    values = _narrowed(values, chosen.method, out)
    known = accepted(values, show, f"the view {view or predictor.usual_view}")
    given = _input(text, chosen.reads_file)
    with noting_files():
        found = show(given, **known)
    note(*found.notes)
    if out is not None:
        draw(found, out)
        typer.echo(f"wrote {out}", err=True)
    if as_json or out is None:
        print_result(found, as_json)


def _chosen(view: str | None, over_time: bool | None) -> str | None:
    if over_time and view not in (None, OVER_TIME):
        raise UsageError(f"--over-time is a view of its own: leave out --view {view}.")
    return OVER_TIME if over_time else view


def _narrowed(values: dict[str, Any], method: str, out: Path | None) -> dict[str, Any]:
    """The numbers of a story may be those of one layer or head; its page has all of them."""
    given = {name: values[name] for name in ("layer", "head") if values[name] is not None}
    if method != "inspect" or not given:
        return values
    if out is not None and out.suffix.lower() != ".json":
        raise UsageError(
            "the page of a story has all layers and heads. Leave out --layer and --head, or use "
            "--view heads."
        )
    rest = {name: value for name, value in values.items() if name not in ("layer", "head")}
    return rest | {f"{name}s": [number] for name, number in given.items()}


def _input(content: str | None, is_file: bool) -> str:
    if is_file:
        if not content:
            raise UsageError("no image. Pass the name of its file.")
        return content
    text = read_text(content)
    if not text.strip():
        raise UsageError("the text is empty.")
    return text
