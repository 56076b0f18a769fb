"""Images that a model painted, drawn into a file: what `generate` and `complete` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.arguments import naming_options
from glassformer.cli.output import note, noting_files, print_json, say
from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.predict.paint import PaintPredictor


def show(
    predictor: "PaintPredictor",
    verb: str,
    settings: dict[str, Any],
    out: Path | None,
    as_json: bool,
    *given: Any,
) -> None:
    """Call a verb of a painter, and draw or print what it returns."""
    from glassformer.story.figures import check_ending
    from glassformer.story.views import PAINTINGS, draw

    if out is None and not as_json:
        raise UsageError("images need a file. Pass --out FILE.png, or --json for their pixels.")
    if out is not None:
        check_ending(out, PAINTINGS)
    with naming_options(predictor, settings), noting_files():
        found = getattr(predictor, verb)(*given, **settings)
    note(*found.notes)
    if out is not None:
        draw(found, out)
        say(f"wrote {out}: {found.text()}")
    if as_json:
        print_json(found.as_json())
