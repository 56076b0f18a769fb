"""A self-contained HTML page from the parts in `static/`, and the page about a corpus. The page
about an input of a model is in `story.py`.

    page.html + body + styles + scripts + data → one file

It loads nothing from the network. The data is embedded as ASCII JSON without "<", scripts insert
all text by `textContent`, and a content security policy forbids the rest: so no token can become
markup.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Any

DIGITS = 6  # of a number on a page: more than a picture can show

# Scripts of every page on what a model does with an input.
SHARED = (
    "elements.js",
    "scales.js",
    "story/arrays.js",
    "story/state.js",
    "story/keyboard.js",
    "story/sources.js",
    "story/figures.js",
    "story/saving.js",
    "story/prose.js",
    "story/matrix.js",
)


def assembled(
    title: str,
    body: str,
    styles: Iterable[str],
    scripts: Iterable[str],
    data: dict[str, Any],
    about: str,
    policy: str = "",
) -> str:
    """A page with this markup below its title, its styles and scripts one after the other, and the
    data. `title` and `body` are HTML. `about` is a sentence on the page, for readers without
    scripts. `policy` is what else the page may do: a directive of its content security policy."""
    sends = "talks only to the server that it comes from" if policy else "sends nothing anywhere"
    text = part("page.html").replace("<!-- title -->", title)
    parts = {
        "/* policy */": f"; {policy}" if policy else "",
        "<!-- about -->": f"{about} It needs JavaScript, and {sends}.",
        "<!-- body -->": body.rstrip("\n"),
        "/* styles */": "\n".join(map(part, styles)),
        "/* scripts */": "\n".join(map(part, scripts)),
        "/* data */": embedded(data),  # last: it is not searched for placeholders
    }
    for placeholder, content in parts.items():
        text = text.replace(placeholder, content, 1)
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
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


@dataclass(frozen=True)
class Frame:
    """A page as a notebook shows it: the same file, in a frame. `html` is the page."""

    html: str
    height: int = 720

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884; border-radius: 8px"
        how = 'title="page" sandbox="allow-scripts allow-downloads" loading="lazy"'
        return f'<iframe srcdoc="{escape(self.html, quote=True)}" {how} style="{style}"></iframe>'


def corpus_page(values: dict[str, Any]) -> str:
    """What became of the pages of a corpus, step by step. Equal values give equal bytes."""
    styles = ("page.css", "report.css", "corpus.css")
    about = "This page describes a corpus in numbers and charts."
    return assembled("Corpus", "", styles, ("elements.js", "corpus.js"), values, about)
