"""A picture of an alignment: an image, a page, or the numbers, as the ending of the file says."""

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from glassformer.checkpoint.atomic import write_file
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspection.alignment import Alignment
from glassformer.story.labels import visible


def draw(alignment: Alignment, path: Path, title: str | None = None) -> None:
    """Write the picture to `path`, whole or not at all. Equal alignments give equal bytes."""
    check_ending(path)
    ending = path.suffix.lower()
    if not alignment.target_tokens and ending != ".json":
        raise GlassformerError(
            f"{path} was not drawn: the output is empty, there is nothing in it."
        )
    write_file(path, _KINDS[ending](alignment, title))


def check_ending(path: Path) -> None:
    """Raise unless the ending of `path` names a kind of picture: before any work is done for it."""
    if path.suffix.lower() not in _KINDS:
        *most, last = _KINDS
        raise UsageError(f"{path}: the name must end in {', '.join(most)} or {last}.")


def page(alignment: Alignment, title: str | None = None) -> str:
    """One HTML page that holds all it needs and asks the network for nothing."""
    static = resources.files(__package__) / "static"
    parts = {
        "/* page.css */": (static / "page.css").read_text(encoding="utf-8"),
        "/* alignment.js */": (static / "alignment.js").read_text(encoding="utf-8"),
        "/* data */": _embedded(alignment, title),  # last: what stands in it is not looked through
    }
    text = (static / "alignment.html").read_text(encoding="utf-8")
    for place, content in parts.items():
        text = text.replace(place, content, 1)
    return text


def _embedded(alignment: Alignment, title: str | None) -> str:
    """JSON in plain ASCII and without "<", so that no text can end the script that it stands in."""
    labels = {
        "title": title,
        "source_labels": [visible(token) for token in alignment.source_tokens],
        "target_labels": [visible(token) for token in alignment.target_tokens],
    }
    return json.dumps(alignment.as_json() | labels).replace("<", "\\u003c")


def _as_page(alignment: Alignment, title: str | None) -> bytes:
    return page(alignment, title).encode()


def _as_json(alignment: Alignment, title: str | None) -> bytes:
    text = json.dumps(alignment.as_json(), ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace")  # half a character, as JSON itself writes it


def _as_png(alignment: Alignment, title: str | None) -> bytes:
    from glassformer.story.heat_map import heat_map

    return heat_map(alignment, title, "png")


def _as_svg(alignment: Alignment, title: str | None) -> bytes:
    from glassformer.story.heat_map import heat_map

    return heat_map(alignment, title, "svg")


_KINDS: dict[str, Callable[[Alignment, str | None], bytes]] = {
    ".html": _as_page,
    ".png": _as_png,
    ".svg": _as_svg,
    ".json": _as_json,
}
