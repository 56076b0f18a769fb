"""What a client may ask, checked before any model sees it."""

import base64
import binascii
import json
from typing import Annotated, Any

from pydantic import Field

from glassformer.config import Config, parse
from glassformer.errors import UsageError
from glassformer.server.stories import Question
from glassformer.story.story import MOST_SWITCHED

LONGEST_TEXT = 20_000  # characters: far more than fits into a picture

Place = Annotated[int, Field(ge=0, le=100_000, strict=True)]


class StoryRequest(Config):
    """A question to a model: a text, or the content of an image file in base64."""

    model: str
    text: str | None = None
    image: str | None = None
    image_name: Annotated[str, Field(max_length=300)] | None = None
    off: Annotated[tuple[tuple[Place, Place], ...], Field(max_length=MOST_SWITCHED)] = ()
    """Layers and heads that are switched off."""

    def question(self) -> Question:
        return Question(
            text=None if self.text is None else _checked(self.text),
            image=None if self.image is None else _decoded(self.image),
            image_name=_checked(self.image_name or "image"),
            off=tuple(sorted(set(self.off))),
        )


def read_request(body: bytes) -> StoryRequest:
    """A request from its JSON; an error says what is wrong with it."""
    try:
        values: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the request is not JSON.") from None
    if not isinstance(values, dict):
        raise UsageError('the request is not a JSON object such as {"model": "a", "text": "b"}.')
    return parse(StoryRequest, values, where="the request", error=UsageError)


def _checked(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"the text has {len(text):,} characters. Use at most {LONGEST_TEXT:,}.")
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character: JSON can contain it, UTF-8 cannot
        raise UsageError("the text is not valid Unicode.") from None
    return text


def _decoded(image: str) -> bytes:
    try:
        return base64.b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("the image is not base64.") from None
