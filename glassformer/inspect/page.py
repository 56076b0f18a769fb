"""One self-contained HTML page from the parts in `static/`: it loads nothing from the network."""

import json
import math
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

# --- page ---

DIGITS = 6  # of a number on a page: more than a picture can show

SHARED = (  # scripts of every page on what a model does with an input
    *("elements.js", "scales.js"),
    *("story/arrays.js", "story/state.js", "story/keyboard.js", "story/sources.js"),
    *("story/figures.js", "story/saving.js", "story/prose.js", "story/matrix.js"),
)


def assembled(
    title: str,
    body: str,
    styles: Iterable[str],
    scripts: Iterable[str],
    data: dict[str, Any],
    policy: str = "",
) -> str:
    """A page with this markup below its title, its styles and scripts one after the other, and the
    data. `title` and `body` are HTML. `policy` is what else the page may do, as a directive of its
    content security policy."""
    text = part("page.html").replace("<!-- title -->", title)
    parts = {
        "/* policy */": f"; {policy}" if policy else "",
        "<!-- body -->": body.rstrip("\n"),
        "/* styles */": "\n".join(map(part, styles)),
        "/* scripts */": "\n".join(map(part, scripts)),
        "/* data */": embedded(data),  # last: it is not searched for places
    }
    for place, content in parts.items():
        text = text.replace(place, content, 1)
    return text


@cache
def part(name: str) -> str:
    """A file of `static/`."""
    file = resources.files(__package__) / "static"
    for step in name.split("/"):
        file = file / step
    return file.read_text(encoding="utf-8")


def embedded(data: Any) -> str:
    """JSON in plain ASCII and without "<": no text in it can end the script element."""
    return json.dumps(_rounded(data), allow_nan=False).replace("<", "\\u003c")


def _rounded(value: Any) -> Any:
    """Numbers with a few digits; what is not a number has no place in a picture. Texts without
    halves of characters, which no file can hold."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


# --- corpus page ---
# The page about a corpus: what became of its pages, step by step.

STYLES = ("page.css", "report.css", "corpus.css")
SCRIPTS = ("elements.js", "corpus.js")


def page(values: dict[str, Any]) -> str:
    """One HTML page. Equal values give equal bytes."""
    return assembled("Corpus", "", STYLES, SCRIPTS, values)
