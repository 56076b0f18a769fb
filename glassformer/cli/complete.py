"""glassformer complete: paint the rest of an image."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from glassformer.cli import options
from glassformer.cli.output import note, noting_files, print_json, say
from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.predict.paint import PaintPredictor


class Completions(options.Group, heading="Output"):
    keep: options.Number = options.option(
        "X", "Share of the rows that is given, from the top (default: 0.5)."
    )
    num_return_sequences: options.Whole = options.count(
        "Number of completions of each image (default: 4)."
    )


@options.takes(options.Sampling, Completions)
def complete(
    model: options.Model,
    images: Annotated[list[str], options.argument("IMAGE", "Image files to complete.")],
    *,
    out: options.Picture = None,
    quantize: options.Quantize = None,
    as_json: options.JsonObject = False,
    **settings: Any,
) -> None:
    """Paint the lower part of images.

    Images are shown in the size and the colours of the model: the original, the rows that were
    given, and what the model painted below them.

    Examples:
      glassformer complete runs/image-gpt-photos photo.png --out grid.png
      glassformer complete runs/image-gpt-photos photos/*.png --keep 0.3 --seed 1 --out grid.png
    """
    from glassformer.predict.paint import PaintPredictor
    from glassformer.tasks import load_for

    predictor = load_for(model, PaintPredictor, "complete", quantize)
    paint(predictor, "complete", settings, out, as_json, images)


def paint(
    predictor: "PaintPredictor",
    verb: str,
    settings: dict[str, Any],
    out: Path | None,
    as_json: bool,
    *inputs: Any,
) -> None:
    """Call a verb of a painter, `complete` or `generate`, and draw or print what it returns."""
    from glassformer.story.figures import check_ending
    from glassformer.story.views import PAINTINGS, draw

    if out is None and not as_json:
        raise UsageError("images need a file. Pass --out FILE.png, or --json for their pixels.")
    if out is not None:
        check_ending(out, PAINTINGS)
    with options.naming_options(predictor, settings), noting_files():
        painted = getattr(predictor, verb)(*inputs, **settings)
    note(*painted.notes)
    if out is not None:
        draw(painted, out)
        say(f"wrote {out}: {painted.text()}")
    if as_json:
        print_json(painted.as_json())
