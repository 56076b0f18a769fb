"""From dumps of posts to a list of links: each page once, with the best score that it got.

    links/links.jsonl       {"url": …, "score": …, "title": …, "domain": …, "subreddit": …}
    links/manifest.json     how many posts were read and dropped, by which rules and settings

A link is judged once, by named rules, and counted under the first one that it breaks. Posts are
read once. Links that pass the rules are written to disk as they come; only 32 bytes of each stay in
memory, and duplicates are found by sorting arrays of hashes. The order of the list is that of a
hash of the URLs: it does not depend on the order of the files, spreads the pages of a site over the
list, and makes the first part of the list a sample of the whole.
"""

import hashlib
import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin

import numpy as np

from glassformer.corpus import in_columns, size_and_hash
from glassformer.corpus.posts import Post, dump_files, read_posts
from glassformer.corpus.urls import BadUrlError, NotHttpError, Url, is_within, parse_url
from glassformer.data.archives import DataPath
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import MANIFEST, json_line, new_folder, read_manifest, write_file, write_json
from glassformer.progress import Notify, silently
from glassformer.wording import cause, counted

# --- the rules: what people recommended, and what can be a page of text ---

RULES = {  # in the order in which they are tried
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
        is_adult = is_within(url.host, _lists()["adult hosts"]) or _ADULT_WORDS.search(url.host)
        if post.over_18 or is_adult:
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


def _file_kind(url: Url) -> str | None:
    """The rule for what the ending of a path shows. The article about Node.js is a page."""
    ending = _ENDING.search(url.path.lower())
    if ending is None or _ARTICLE.search(url.path):
        return None
    if ending[1] in _lists()["media endings"]:
        return "media"
    return "not_a_page" if ending[1] in _lists()["file endings"] else None


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
    domains = frozenset(_domains(path, lines))
    if not domains:
        raise GlassformerError(f"{path} contains no domains. Write one on each line.")
    return domains


def _domains(path: Path, lines: list[str]) -> Iterator[str]:
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


# --- from posts to links.jsonl ---

LINKS = "links.jsonl"
FORMAT = "glassformer links"
MOST_BAD_LINES = 100
_REPORTED = 10  # bad lines that are reported one by one
_NOW_AND_THEN = 1_000_000  # posts after which the progress is reported
_CANDIDATES = ".candidates.jsonl"  # links that passed the rules, with duplicates


@dataclass(frozen=True)
class Links:
    """What became of the posts: read = kept + all dropped."""

    read: int
    kept: int
    dropped: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))

    def text(self) -> str:
        dropped = ((name, count, RULES[name]) for name, count in self.dropped.items() if count)
        return in_columns(("posts read", self.read, ""), *dropped, ("links kept", self.kept, ""))


def collect_links(
    posts: Sequence[str],
    out: Path,
    rules: LinkRules,
    max_bad_lines: int = MOST_BAD_LINES,
    force: bool = False,
    notify: Notify = silently,
) -> Links:
    """Read dumps of posts and write the links that pass the rules into the folder `out`."""
    check_free(out, force, FORMAT)
    files, others = dump_files(posts)
    if others:
        names = ", ".join(sorted(path.name for path in others)[:3])
        more = ", …" if len(others) > 3 else ""
        notify(f"skipped {counted(len(others), 'file')} without posts: {names}{more}.")
    with new_folder(out, has_own_manifest=True) as folder:
        candidates = folder / _CANDIDATES
        with candidates.open("wb", buffering=2**20) as stream:
            reading = _Reading(stream, rules, max_bad_lines, notify)
            sources = [{"file": path.name, "posts": reading.read(path)} for path in files]
        if not reading.num_read:
            raise GlassformerError(f"{', '.join(posts)} contains no posts. Pass other --posts.")
        with candidates.open("rb", buffering=2**12) as stream:  # lines here and there
            links = reading.write_best(stream, folder / LINKS)
        candidates.unlink()
        _write_manifest(folder, links, rules, sources)
    return links


def check_free(out: Path, force: bool, made: str) -> None:
    """Raise unless `out` can be written: with force, also if it is an earlier output."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not force:
        raise UsageError(f"{out} already exists. Pass --force to replace it, or another --out.")
    if read_manifest(out).get("format") != made:
        raise UsageError(
            f"{out} contains something else, so --force does not replace it. Pass another --out."
        )


class _Reading:
    """One pass over all posts."""

    def __init__(
        self, candidates: BinaryIO, rules: LinkRules, max_bad_lines: int, notify: Notify
    ) -> None:
        self._candidates, self._rules = candidates, rules
        self._max_bad_lines, self._notify = max_bad_lines, notify
        self.num_read = 0
        self._dropped: Counter[str] = Counter()
        self._keys, self._scores = array("Q"), array("d")
        self._ties, self._offsets = array("Q"), array("Q")
        self._end = 0  # of the candidates, in bytes

    def read(self, path: DataPath) -> int:
        """Read a file. Returns the number of its posts."""
        before = self.num_read
        for post in read_posts(path, self._malformed):
            self.num_read += 1
            url = self._rules.judge(post)
            if isinstance(url, str):
                self._dropped[url] += 1
            else:
                self._add(url, post)
            if self.num_read % _NOW_AND_THEN == 0:
                self._notify(f"{self.num_read:,} posts read, {len(self._keys):,} links so far.")
        return self.num_read - before

    def _malformed(self, problem: str) -> None:
        self.num_read += 1
        self._dropped["malformed"] += 1
        count = self._dropped["malformed"]
        if count > self._max_bad_lines:
            raise GlassformerError(
                f"{problem}. {count:,} lines cannot be read: mend the file, or pass a larger "
                "--max-bad-lines."
            )
        if count <= _REPORTED:
            self._notify(f"skipped {problem}.")

    def _add(self, url: Url, post: Post) -> None:
        score = post.score or 0.0
        values = {
            "url": str(url),
            "score": int(score) if score.is_integer() else score,
            "title": post.title,
            "domain": url.domain,
            "subreddit": post.subreddit,
        }
        line = json.dumps(values, ensure_ascii=False).encode() + b"\n"
        self._keys.append(_hash(url.key.encode()))
        self._scores.append(score)
        self._ties.append(_hash(line))
        self._offsets.append(self._end)
        self._end += self._candidates.write(line)

    def write_best(self, candidates: BinaryIO, path: Path) -> Links:
        """Write the best of each group of equal links."""
        keys, scores = np.asarray(self._keys), np.asarray(self._scores)
        order = np.lexsort((np.asarray(self._ties), -scores, keys))
        is_first = np.ones(len(keys), dtype=bool)
        is_first[1:] = keys[order][1:] != keys[order][:-1]
        best = order[is_first]
        with path.open("wb") as target:
            for offset in np.asarray(self._offsets)[best].tolist():
                candidates.seek(offset)
                target.write(candidates.readline())
        self._dropped["duplicate"] = len(keys) - len(best)
        dropped = {rule: self._dropped[rule] for rule in RULES}
        return Links(self.num_read, len(best), dropped)


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def _write_manifest(
    folder: Path, links: Links, rules: LinkRules, sources: list[dict[str, Any]]
) -> None:
    settings = {
        "min_score": rules.min_score,
        "exclude_domains": sorted(rules.exclude),
        "include_domains": sorted(rules.include),
    }
    write_json(
        folder / MANIFEST,
        {
            "format": FORMAT,
            **links.as_json(),
            "settings": settings,
            "sources": sources,
            "files": {LINKS: size_and_hash(folder / LINKS)},
        },
    )


# --- from links.jsonl to the pages that are among the links ---
#
# links.jsonl                   a.org/1  score 12
# WARC: a.org/1 → 301 → b.org/x          so b.org/x is linked, with score 12

_MOST_REDIRECTS = 10
_SAVED = ("score", "title")

Linked = dict[str, dict[str, Any]]
"""What is known about the pages that are linked, by their keys."""


def link_in(line: bytes | str, where: str) -> dict[str, Any]:
    """A link from a line of links.jsonl."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        link: dict[str, Any] = json.loads(line)
        if isinstance(link["url"], str):
            return link
    raise GlassformerError(f'{where}: not a link. Write each line as {{"url": "…"}}.')


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


def _read_links(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield link_in(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
