"""Which pages are among the links, also if a link was redirected to them.

links.jsonl                   a.org/1  score 12
WARC: a.org/1 → 301 → b.org/x          so b.org/x is linked, with score 12
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from glassformer.corpus.links import LINKS, link_in
from glassformer.corpus.urls import BadUrlError, parse_url
from glassformer.errors import GlassformerError
from glassformer.files import json_line, write_file
from glassformer.wording import cause, shortened

# --- linked pages ---

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


# --- page outcomes ---
# What became of pages: counts by rule, and a few examples of each.
#
# Every page that was read is either kept or counted under exactly one rule, named step/rule.
# Examples
# are those whose hash is smallest, so that they depend neither on the order of the pages nor on
# how
# the work was divided.

EXAMPLES = 4  # of each rule
_SHOWN = 400  # characters of a text
KEPT = "kept"

# The steps in their order, and what their rules mean. The rules of quality are in quality.py.
STEPS = {
    "record": "Whole records",
    "page": "Pages of HTML or text",
    "extraction": "Pages with text",
    "language": "Texts in the right language",
    "quality": "Texts that pass the quality rules",
    "duplicates": "Texts that are kept",
}
RULES = {
    "record/truncated": "the file ends in the middle of the record",
    "record/damaged": "the record cannot be read",
    "page/not_http": "no HTTP response, such as a DNS answer",
    "page/status": "the server did not answer with 200 OK",
    "page/robots_txt": "the robots.txt of a site, not a page",
    "page/type": "neither HTML nor plain text",
    "page/not_linked": "not among the links",
    "page/too_large": "larger than the limit",
    "page/compression": "compressed in a way that cannot be undone",
    "page/brotli": "compressed by brotli, which is not installed",
    "extraction/no_text": "no running text",
    "extraction/time_limit": "extraction took too long or crashed",
    "extraction/failed": "extraction failed",
    "language/other": "another language",
    "language/unsure": "a language that is not certain",
    "duplicates/exact": "the same text as an earlier page",
    "duplicates/near": "almost the same text as an earlier page",
}


class Outcomes:
    """Counts and examples of some pages."""

    def __init__(self) -> None:
        self.read = 0
        self.counts: Counter[str] = Counter()
        self.languages: Counter[str] = Counter()
        self.examples: dict[str, list[dict[str, Any]]] = {}

    def add(self, rule: str, url: str, text: str = "", detail: str = "", title: str = "") -> None:
        """A page was dropped by a rule, or kept."""
        self.counts[rule] += 1
        key = hashlib.sha256(f"{rule} {url} {text[:200]}".encode(errors="replace")).hexdigest()
        found = self.examples.setdefault(rule, [])
        if len(found) >= EXAMPLES and key >= found[-1]["key"]:
            return
        example = {
            "key": key,
            "url": shortened(url, 300),
            "title": title,
            "detail": detail,
            "text": shortened(text[: 4 * _SHOWN], _SHOWN),
        }
        found.append(example)
        self._keep_smallest(rule)

    def merge(self, other: dict[str, Any]) -> None:
        self.read += other["read"]
        self.counts.update(other["counts"])
        self.languages.update(other["languages"])
        for rule, examples in other["examples"].items():
            self.examples.setdefault(rule, []).extend(examples)
            self._keep_smallest(rule)

    def as_json(self) -> dict[str, Any]:
        return {
            "read": self.read,
            "counts": dict(sorted(self.counts.items(), key=_place)),
            "languages": dict(sorted(self.languages.items())),
            "examples": dict(sorted(self.examples.items())),
        }

    def _keep_smallest(self, rule: str) -> None:
        self.examples[rule] = sorted(self.examples[rule], key=lambda each: str(each["key"]))
        del self.examples[rule][EXAMPLES:]


def _place(count: tuple[str, int]) -> tuple[int, str]:
    """Rules in the order of the steps."""
    step = count[0].partition("/")[0]
    return [*STEPS, step].index(step), count[0]
