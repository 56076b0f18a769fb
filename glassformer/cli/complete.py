"""glassformer complete: paint the rest of an image."""

from typing import Annotated, Any

from glassformer.cli import options
from glassformer.cli.arguments import passed


@options.takes(options.Sampling)
def complete(
    model: options.Model,
    images: Annotated[list[str], options.argument("IMAGE", "Image files to complete.")],
    *,
    keep: Annotated[
        float | None,
        options.output("X", "Share of the rows that is given, from the top (default: 0.5)."),
    ] = None,
    num_return_sequences: Annotated[
        int | None,
        options.count(
            "Number of completions of each image (default: 4).", rich_help_panel="Output"
        ),
    ] = None,
    out: options.Picture = None,
    quantize: options.Quantize = None,
    as_json: options.JsonObject = False,
    **values: Any,
) -> None:
    """Paint the lower part of images.

    Images are shown in the size and the colours of the model: the original, the rows that were
    given, and what the model painted below them.

    Examples:
      glassformer complete runs/image-gpt-photos photo.png --out grid.png
      glassformer complete runs/image-gpt-photos photos/*.png --keep 0.3 --seed 1 --out grid.png
    """
    settings = passed({"keep": keep, "num_return_sequences": num_return_sequences, **values})

    from glassformer.cli.painting import show
    from glassformer.predict.paint import PaintPredictor
    from glassformer.tasks import load_for

    predictor = load_for(model, PaintPredictor, "complete", quantize)
    show(predictor, "complete", settings, out, as_json, images)
