"""A picture of an alignment: an image, a page, or its numbers, depending on the file name."""

import json
from importlib import resources
from pathlib import Path

from glassformer.atomic_files import write_file
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspection.alignment import Alignment
from glassformer.story.heat_map import heat_map
from glassformer.story.labels import visible


def draw(alignment: Alignment, path: Path, title: str | None = None) -> None:
    """Write the picture to `path`, whole or not at all. Equal alignments give equal bytes."""
    check_ending(path)
    ending = path.suffix.lower()
    if not alignment.target_tokens and ending != ".json":
        raise GlassformerError(f"{path} was not drawn: the output is empty.")
    if ending == ".html":
        content = page(alignment, title).encode()
    elif ending == ".json":
        text = json.dumps(alignment.as_json(), ensure_ascii=False) + "\n"
        content = text.encode(errors="backslashreplace")  # half a character, as JSON writes it
    else:
        content = heat_map(alignment, title, ending.removeprefix("."))
    write_file(path, content)


def check_ending(path: Path) -> None:
    """Raise unless `path` ends like a kind of picture; called before any work is done."""
    if path.suffix.lower() not in (".html", ".png", ".svg", ".json"):
        raise UsageError(f"{path}: the name must end in .html, .png, .svg or .json.")


def page(alignment: Alignment, title: str | None = None) -> str:
    """One self-contained HTML page, which loads nothing from the network."""
    static = resources.files(__package__) / "static"
    parts = {
        "/* page.css */": (static / "page.css").read_text(encoding="utf-8"),
        "/* alignment.js */": (static / "alignment.js").read_text(encoding="utf-8"),
        "/* data */": _embedded(alignment, title),  # last: it is not searched for places
    }
    text = (static / "alignment.html").read_text(encoding="utf-8")
    for place, content in parts.items():
        text = text.replace(place, content, 1)
    return text


def _embedded(alignment: Alignment, title: str | None) -> str:
    """JSON in plain ASCII and without "<": no text in it can end the script element."""
    labels = {
        "title": title,
        "source_labels": [visible(token) for token in alignment.source_tokens],
        "target_labels": [visible(token) for token in alignment.target_tokens],
    }
    return json.dumps(alignment.as_json() | labels).replace("<", "\\u003c")
