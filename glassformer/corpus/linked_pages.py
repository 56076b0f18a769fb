"""Which pages are among the links, also if a link was redirected to them.

links.jsonl                   a.org/1  score 12
WARC: a.org/1 → 301 → b.org/x          so b.org/x is linked, with score 12
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from glassformer.atomic_files import json_line, write_file
from glassformer.corpus.links import LINKS, link_in
from glassformer.corpus.urls import BadUrlError, parse_url
from glassformer.errors import GlassformerError
from glassformer.wording import cause

_MOST_REDIRECTS = 10
_SAVED = ("score", "title")

Linked = dict[str, dict[str, Any]]


def key_of(url: str) -> str:
    """Equal for URLs of the same page; a URL that is none is its own key."""
    try:
        return parse_url(url).key
    except BadUrlError:
        return url


def redirect(url: str, location: str) -> tuple[str, str]:
    """The keys of a page and of the one that it leads to."""
    try:
        return key_of(url), key_of(urljoin(url, location))
    except ValueError:
        return key_of(url), location


def write_linked(links: Path, redirects: dict[str, str], path: Path) -> None:
    """Write the pages that the links in a folder lead to, with what is known about them."""
    pages: Linked = {}
    for link in _read_links(links / LINKS):
        about = {name: link[name] for name in _SAVED if link.get(name) is not None}
        key = key_of(link["url"])
        for _ in range(_MOST_REDIRECTS + 1):
            pages.setdefault(key, about)
            if key not in redirects:
                break
            key = redirects[key]
    rows = ({"key": key, **about} for key, about in sorted(pages.items()))
    write_file(path, b"".join(map(json_line, rows)))


@cache
def read_linked(path: Path) -> Linked:
    """The pages that are linked, by key. Each process reads them once."""
    with path.open(encoding="utf-8") as file:
        rows = (json.loads(line) for line in file)
        return {row.pop("key"): row for row in rows}


def check_links(links: Path) -> None:
    if not (links / LINKS).is_file():
        raise GlassformerError(
            f"{links} contains no {LINKS}. Pass the folder that glassformer corpus links wrote."
        )


def _read_links(path: Path) -> Iterable[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield link_in(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
