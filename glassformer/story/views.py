"""The pictures of `inspect`: one row for each kind of result, and the function that draws it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.inspection.alignment import Alignment
from glassformer.inspection.image_attention import ImageAttention
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.over_time import OverTime
from glassformer.inspection.text_views import (
    AblationView,
    AttributionView,
    ContextsView,
    HeadsView,
    LensView,
    PredictionView,
)
from glassformer.inspection.word_places import WordPlaces
from glassformer.story import (
    alignment,
    history,
    image_attention,
    story,
    text_pictures,
    word_places,
)

DRAWN: dict[type[Any], Callable[[Any, Path], None]] = {
    Alignment: alignment.draw,
    ImageAttention: image_attention.draw,
    WordPlaces: word_places.draw,
    Inspection: story.draw,
    HeadsView: text_pictures.draw,
    LensView: text_pictures.draw,
    AblationView: text_pictures.draw,
    PredictionView: text_pictures.draw,
    AttributionView: text_pictures.draw,
    ContextsView: text_pictures.draw,
    OverTime: history.draw,
}


def draw(found: Any, path: Path) -> None:
    """Write the picture of a result to `path`, whose ending chooses its format."""
    DRAWN[type(found)](found, path)
