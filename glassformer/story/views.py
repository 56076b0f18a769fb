"""The pictures and pages of `inspect` and of painters: a row for each kind of result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.atomic_files import write_file, write_json_line
from glassformer.errors import UsageError
from glassformer.inspection.alignment import Alignment
from glassformer.inspection.image_attention import ImageAttention
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.over_time import OverTime
from glassformer.inspection.paintings import Paintings
from glassformer.inspection.text_views import (
    AblationView,
    AttributionView,
    ContextsView,
    HeadsView,
    LensView,
    PredictionView,
)
from glassformer.inspection.word_places import WordPlaces
from glassformer.story import history, image_pictures, story, text_pictures
from glassformer.story.figures import Sheet, check_ending, draw_picture
from glassformer.story.history_picture import history_picture

PAINTINGS = (".png", ".svg", ".json")
PICTURES: dict[type[Any], Callable[[Any], Sheet]] = {
    Alignment: text_pictures.alignment_picture,
    ImageAttention: image_pictures.attention_picture,
    WordPlaces: image_pictures.words_picture,
    HeadsView: text_pictures.heads_picture,
    LensView: text_pictures.lens_picture,
    AblationView: text_pictures.ablation_picture,
    PredictionView: text_pictures.prediction_picture,
    AttributionView: text_pictures.attribution_picture,
    ContextsView: text_pictures.contexts_picture,
    OverTime: history_picture,
    Paintings: image_pictures.paintings_picture,
}
CHAPTERS: dict[type[Any], str] = {
    Alignment: "alignment",
    ImageAttention: "attention",
    WordPlaces: "words",
    HeadsView: "attention",
    LensView: "layers",
    AblationView: "layers",
    PredictionView: "prediction",
    AttributionView: "attribution",
    ContextsView: "layers",
}
"""Where the page of the story opens, which shows all views."""


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
    else:
        draw_picture(lambda: PICTURES[type(view)](view), path)


def _page(view: Any) -> str:
    if isinstance(view, OverTime):
        return history.page(view)
    if isinstance(view, Inspection):
        return story.page(view)
    chosen = getattr(view, "chosen", (None, None))
    return story.page(view.seen, CHAPTERS[type(view)], *chosen)
