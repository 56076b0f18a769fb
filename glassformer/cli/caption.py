"""glassformer caption: what is in an image?"""

from pathlib import Path
from typing import Annotated, Any

from glassformer.cli import options
from glassformer.cli.output import note, noting_files, print_texts, say
from glassformer.errors import UsageError


@options.takes(options.CaptionBeams, options.Captions)
def caption(
    model: options.Model,
    images: Annotated[list[str], options.argument("IMAGE…", "Image files to describe.")],
    *,
    attention: Annotated[
        Path | None,
        options.output(
            "FILE",
            "Also draw where the model looked for each word of the caption of a single image: "
            ".png, .svg, .html or .json.",
        ),
    ] = None,
    quantize: options.Quantize = None,
    as_json: options.JsonLines = False,
    **settings: Any,
) -> None:
    """Describe images.

    Examples:
      glassformer caption runs/captioner-photos photo.jpg --num-beams 4
      glassformer caption runs/captioner-photos photo.jpg --attention words.png
      glassformer caption runs/captioner-photos photos/*.jpg --json
    """
    from glassformer.evaluation.answers import cut_off_note
    from glassformer.predict.caption import CaptionPredictor
    from glassformer.story.figures import check_ending
    from glassformer.story.views import draw
    from glassformer.tasks import load_for

    if attention is not None:
        check_ending(attention)
        if len(images) > 1:
            raise UsageError("--attention draws the words of one image. Pass a single image.")
    predictor = load_for(model, CaptionPredictor, "caption", quantize)
    with noting_files():
        with options.naming_options(predictor, settings):
            captions = predictor.caption_batch(images, **settings)
        for each in captions:
            print_texts(each, as_json, f"{each.image}\t" if len(captions) > 1 else "")
        if number := sum(each.is_cut_off for each in captions):
            length = predictor.model.context_length
            note(cut_off_note(number, len(captions), length, "caption"))
        if attention is not None:
            draw(predictor.look(images[0], **settings), attention)
            say(f"wrote {attention}")
