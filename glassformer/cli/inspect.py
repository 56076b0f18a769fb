"""The verbs that look inside a model: inspect, on the terminal or in a file, explore, live in the
browser, and playground, a page in which a model learns."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.output import note, notify, noting_files, print_result
from glassformer.cli.stdin import read_text
from glassformer.cli.verb import existing_model
from glassformer.errors import UsageError

FORMATS = "File to write; its extension sets the format: .html, .png, .svg or .json."
VIEWS = (
    "What to show, such as story, heads or lens; an unknown name lists all views of the model "
    "(default: story)."
)
OVER_TIME = "over-time"
LOOKING_BACK = "Show the input at several steps of the model's training (--view over-time)."
_view = partial(options.option, rich_help_panel="View")


def inspect(
    run: options.Model,
    text: Annotated[
        str | None, options.argument("INPUT", "Text to read (default: stdin), or image file.")
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
    compare: Annotated[
        list[str] | None,
        _view("TEXT", "Sentence that shares a word with the text (may be repeated)."),
    ] = None,
    word: Annotated[
        str | None, _view("WORD", "Word to compare (default: the longest shared one).")
    ] = None,
    out: Annotated[Path | None, options.output("FILE", FORMATS)] = None,
    as_json: options.JsonObject = False,
) -> None:
    """Look inside a model: attention, layers and predictions.

    Examples:
      glassformer inspect runs/gpt-notes "The train slowly left" --out story.html
      glassformer inspect runs/translator-pairs "A man sleeps." --view alignment --out a.html
      glassformer inspect runs/vit-images photo.jpg --out story.html
    """
    values: dict[str, Any] = {"target": target, "layer": layer, "head": head, "words": words}
    values |= {"compare": compare, "word": word}

    from glassformer.files import check_ending
    from glassformer.inspect.views import draw
    from glassformer.options import accepted
    from glassformer.tasks import load

    if over_time and view not in (None, OVER_TIME):
        raise UsageError(f"--over-time is a view of its own: leave out --view {view}.")
    name = OVER_TIME if over_time else view
    ending = None if out is None else check_ending(out)
    if target is not None and not target.strip():
        raise UsageError("--target is empty. Leave it out to align the model's own translation.")
    if words and ending == ".html":
        raise UsageError("the page shows tokens. Leave out --words, or write .png, .svg or .json.")
    predictor = load(run)
    chosen_view = predictor.view(name, run)
    show = getattr(predictor, chosen_view.method)
    if chosen_view.method == "inspect" and (layer, head) != (None, None):
        # The numbers of a story may be those of one layer or head; its page has all of them.
        if ending not in (None, ".json"):
            raise UsageError(
                "the page of a story has all layers and heads. Leave out --layer and --head, or "
                "use --view heads."
            )
        for option in ("layer", "head"):
            number = values.pop(option)
            values[f"{option}s"] = None if number is None else [number]
    arguments = accepted(values, show, f"the view {name or predictor.usual_view}")
    if chosen_view.reads_file and not text:
        raise UsageError("no image. Pass the name of its file.")
    content = str(text) if chosen_view.reads_file else read_text(text)
    if not content.strip():
        raise UsageError("the text is empty.")
    with noting_files():
        result = show(content, **arguments)
    note(*result.notes)
    if out is not None:
        draw(result, out)
        notify(f"wrote {out}")
    if as_json or out is None:
        print_result(result, as_json)


# --- explore ---


def explore(
    models: Annotated[
        list[Path],
        options.argument(
            "MODELS",
            "Run or model folders, Hugging Face folders, GGUF files or names on the hub.",
            callback=existing_model,
        ),
    ],
    port: Annotated[
        int, options.option("N", "Port of the address; 0 chooses a free one.", min=0, max=65_535)
    ] = 8000,
    opens: Annotated[bool, options.switch("--open", "Open the page in a browser.")] = False,
) -> None:
    """Look inside models live in the browser.

    Serves the page of `inspect` at an address that only this computer can reach, until Ctrl-C.
    Several models can be shown side by side.

    Examples:
      glassformer explore runs/gpt-notes
      glassformer explore runs/before runs/after --port 8080 --open
    """
    from glassformer.serve.explore import explore as serve

    def ready(address: str) -> None:
        typer.echo(f"exploring at {address} (press Ctrl-C to stop)")
        if opens:
            import webbrowser

            webbrowser.open(address)

    serve(models, port, ready, note)


# --- playground ---


def playground(
    out: Annotated[Path, options.output("FILE", "Page to write.")] = Path("playground.html"),
) -> None:
    """Write a page in which a small GPT learns, in the browser.

    The page is one file that needs no network. It learns from any text that is pasted into it,
    shows what changes with each step, and saves a model that `generate` reads.

    Examples:
      glassformer playground
      glassformer playground --out play.html
    """
    from glassformer.files import check_ending, write_file
    from glassformer.inspect.playground import playground as page

    check_ending(out, (".html",))
    write_file(out, page())
    notify(f"wrote {out}. Open it in a browser.")
