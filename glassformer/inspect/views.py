"""The pictures and pages of `inspect` and of painters: a row for each kind of result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError, UsageError
from glassformer.files import write_file, write_json_line
from glassformer.inspect import history, image_pictures, story, text_pictures
from glassformer.inspect.alignment import Alignment, ImageAttention, WordPlaces
from glassformer.inspect.figures import Sheet, check_ending, draw_picture
from glassformer.inspect.history import history_picture
from glassformer.inspect.inspection import Inspection
from glassformer.inspect.over_time import OverTime
from glassformer.inspect.places import Paintings
from glassformer.inspect.text_views import (
    AblationView,
    AttributionView,
    ContextsView,
    HeadsView,
    LensView,
    PredictionView,
)

PAINTINGS = (".png", ".svg", ".json")
DRAWN: dict[type[Any], tuple[Callable[[Any], Sheet], str]] = {
    Alignment: (text_pictures.alignment_picture, "alignment"),
    ImageAttention: (image_pictures.attention_picture, "attention"),
    WordPlaces: (image_pictures.words_picture, "words"),
    HeadsView: (text_pictures.heads_picture, "attention"),
    LensView: (text_pictures.lens_picture, "layers"),
    AblationView: (text_pictures.ablation_picture, "layers"),
    PredictionView: (text_pictures.prediction_picture, "prediction"),
    AttributionView: (text_pictures.attribution_picture, "attribution"),
    ContextsView: (text_pictures.contexts_picture, "layers"),
    OverTime: (history_picture, "history"),
    Paintings: (image_pictures.paintings_picture, ""),
}
"""The picture of each kind of result, and the chapter at which the page of the story opens for it;
that page has all views."""


def draw(view: Any, path: Path) -> None:
    """Write a result to `path`, whole or not at all; the ending chooses its format. Equal results
    give equal bytes."""
    ending = check_ending(path, PAINTINGS) if isinstance(view, Paintings) else check_ending(path)
    if ending == ".json":
        write_json_line(path, view.as_json())
    elif ending == ".html":
        write_file(path, _page(view))
    elif isinstance(view, Inspection):
        raise UsageError(
            f"{path}: the story is a page. Let the name end in .html, or choose a picture with "
            "--view."
        )
    elif isinstance(view, Alignment) and not view.target_tokens:
        raise GlassformerError(f"{path} was not drawn: the output is empty.")
    else:
        picture, _ = DRAWN[type(view)]
        draw_picture(lambda: picture(view), path)


def _page(view: Any) -> str:
    if isinstance(view, OverTime):
        return history.page(view)
    if isinstance(view, Inspection):
        return story.page(view)
    _, chapter = DRAWN[type(view)]
    return story.page(view.seen, chapter, *getattr(view, "chosen", (None, None)))
