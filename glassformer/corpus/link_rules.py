"""The rules by which links are kept: what people recommended, and what can be a page of text.

A post is dropped by the first rule that it breaks, in the order of `RULES`, and counted there.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from glassformer.corpus.posts import Post
from glassformer.corpus.urls import BadUrlError, NotHttpError, Url, is_within, parse_url
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause

RULES = {
    "malformed": "lines that cannot be read",
    "no_score": "posts without a score",
    "low_score": "score below --min-score",
    "self_post": "posts of text, without a link",
    "no_url": "posts without a URL",
    "not_http": "URLs of another kind than http and https",
    "bad_url": "URLs that cannot lead to a page on the public web",
    "adult": "marked as adult, or on an adult site",
    "not_included_domain": "not on a domain of --include-domains",
    "excluded_domain": "social networks, link shorteners, domains of --exclude-domains",
    "media": "images, video and audio",
    "not_a_page": "files that are not pages, such as .pdf and .zip",
    "duplicate": "URLs that occur more than once",
}
_ADULT_WORDS = re.compile(r"porn|hentai|xxx|camgirl|milf|bdsm")
_ENDING = re.compile(r"\.([a-z0-9]{1,7})$")
_ARTICLE = re.compile(r"/wiki/(?!(file|image|media|datei|fichier|archivo):)", re.IGNORECASE)


@dataclass(frozen=True)
class LinkRules:
    """What the user may choose."""

    min_score: float = 3
    exclude: frozenset[str] = frozenset()
    include: frozenset[str] = frozenset()
    """Empty: all. Links to these domains are kept even if the built-in lists have them."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.min_score):
            raise UsageError(f"--min-score {self.min_score} is not a number.")

    def judge(self, post: Post) -> Url | str:
        """The link of a post, or the name of the rule that drops it."""
        if post.score is None:
            return "no_score"
        if post.score < self.min_score:
            return "low_score"
        if post.is_self:
            return "self_post"
        if not post.url:
            return "no_url"
        try:
            url = parse_url(post.url)
        except NotHttpError:
            return "not_http"
        except BadUrlError:
            return "bad_url"
        if post.over_18 or _is_adult(url.host):
            return "adult"
        return self._problem(url) or url

    def _problem(self, url: Url) -> str | None:
        is_wanted = is_within(url.host, self.include)
        if self.include and not is_wanted:
            return "not_included_domain"
        if is_within(url.host, self.exclude):
            return "excluded_domain"
        if not is_wanted:
            # Images and videos on Reddit's own hosts are media, too.
            if is_within(url.host, _lists()["media hosts"]):
                return "media"
            if is_within(url.host, _lists()["excluded hosts"]):
                return "excluded_domain"
        return _file_kind(url)


def _is_adult(host: str) -> bool:
    return is_within(host, _lists()["adult hosts"]) or bool(_ADULT_WORDS.search(host))


def _file_kind(url: Url) -> str | None:
    """The rule for what the ending of a path shows. The article about Node.js is a page."""
    found = _ENDING.search(url.path.lower())
    if found is None or _ARTICLE.search(url.path):
        return None
    if found[1] in _lists()["media endings"]:
        return "media"
    return "not_a_page" if found[1] in _lists()["file endings"] else None


@cache
def _lists() -> dict[str, frozenset[str]]:
    """The lists in link_lists.txt, each by the name above it."""
    text = (resources.files(__package__) / "link_lists.txt").read_text(encoding="utf-8")
    parts = re.split(r"^\[(.*)\]$", re.sub("#.*", "", text), flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return {name: frozenset(words.split()) for name, words in pairs}


def read_domains(path: Path) -> frozenset[str]:
    """The domains in a file, one on each line; what follows # is a comment."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeError:
        raise GlassformerError(f"{path} is not UTF-8. Save it as UTF-8.") from None
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
    found = frozenset(_domains(path, lines))
    if not found:
        raise GlassformerError(f"{path} contains no domains. Write one on each line.")
    return found


def _domains(path: Path, lines: Iterable[str]) -> Iterable[str]:
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            url = parse_url(f"http://{text}")
        except BadUrlError as error:
            raise GlassformerError(
                f"{path}:{number}: {text} is not a domain ({error}). Write, for example, "
                "example.org."
            ) from None
        if url.target != "/":
            raise GlassformerError(
                f"{path}:{number}: {text} is not a domain. Write only the host, {url.host}."
            )
        yield url.domain
