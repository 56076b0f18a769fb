"""The pages of `glassformer explore`: the story, computed by a server, and stories side by side."""

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Any

from glassformer.story.page import assembled, part
from glassformer.story.story import SCRIPTS, STYLES

_SCRIPT = re.compile(r'<script type="module">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True)
class ServedPage:
    """A page, and the content security policy that belongs into its header."""

    html: str
    policy: str


def story_page(server: dict[str, Any]) -> ServedPage:
    """The story page. `server` has the models that it may ask for, and a first text."""
    *scripts, last = SCRIPTS
    return _served(
        "Explore",
        part("story/story.html"),
        (*STYLES, "explore/explore.css"),
        (*scripts, "explore/inputs.js", "explore/served.js", "explore/column.js", last),
        server,
        "connect-src 'self'",
    )


def compare_page(server: dict[str, Any]) -> ServedPage:
    """Several story pages beside each other, with one box for the text."""
    return _served(
        "Side by side",
        part("explore/compare.html"),
        (*STYLES, "explore/explore.css", "explore/compare.css"),
        ("elements.js", "explore/inputs.js", "explore/compare.js"),
        server,
        "frame-src 'self'",
    )


def _served(
    title: str,
    body: str,
    styles: tuple[str, ...],
    scripts: tuple[str, ...],
    server: dict[str, Any],
    allowed: str,
) -> ServedPage:
    """The policy of the header is stricter than that of a file: only this very script may run, and
    only a page of this server may frame it."""
    html = assembled(title, body, styles, scripts, {"server": server}, allowed)
    (script,) = _SCRIPT.findall(html)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return ServedPage(
        html,
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; {allowed}; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'",
    )
