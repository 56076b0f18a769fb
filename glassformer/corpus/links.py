"""From dumps of posts to a list of links: each page once, with the best score that it got.

    links/links.jsonl       {"url": …, "score": …, "title": …, "domain": …, "subreddit": …}
    links/manifest.json     how many posts were read and dropped, by which rules and settings

Posts are read once. Links that pass the rules are written to disk as they come; only 32 bytes of
each stay in memory, by which duplicates are found. The order of the list is that of a hash of the
URLs: it does not depend on the order of the files, spreads the pages of a site over the list, and
makes the first part of the list a sample of the whole.
"""

import csv
import hashlib
import html
import io
import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.corpus.dump_files import (
    LONGEST_LINE,
    TABLES,
    dump_files,
    kind_of,
    numbered_lines,
    open_dump,
)
from glassformer.corpus.urls import BadUrlError, NotHttpError, Url, in_columns, is_within, parse_url
from glassformer.data.tables import declared_separator
from glassformer.data.text_files import DataPath
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import MANIFEST, file_digest, new_folder, read_manifest, write_json
from glassformer.wording import cause, counted, readable_size

# --- posts ---
# Posts in Reddit-style dumps: what was linked, and how many people recommended it.
#
# Dumps of different years and tools have their quirks: scores as strings, as fractions ("12.0") or
# null, `ups` instead of `score`, `&amp;` inside URLs, self posts whose URL is their own page, and
# crossposts whose URL is the page of the other post.

Row = dict[str, Any]
Malformed = Callable[[str], None]  # is given the place and the problem
Numbered = Iterator[tuple[int, Row]]  # the line on which a row begins

SCORES = ("score", "ups")
_ENOUGH = 1_000  # posts among which some must have a URL and a score
_LARGEST_JSON = 2**30  # bytes of a .json file, which is read as a whole
_ESCAPED = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&"}
_HALF = re.compile("[\ud800-\udfff]")  # of a character
_REDDIT = "https://www.reddit.com"


@dataclass(frozen=True, slots=True)
class Post:
    """One post of a dump."""

    url: str
    """Empty if there is none."""
    score: float | None
    title: str
    subreddit: str
    is_self: bool
    over_18: bool


def read_posts(path: DataPath, malformed: Malformed) -> Iterator[Post]:
    """The posts of a file, one at a time. What cannot be read is passed to `malformed`, which may
    raise; a file without URLs or scores is an error."""
    columns: set[str] = set()
    count = 0
    for row in _rows(path, malformed):
        post = _post(row)
        if count < _ENOUGH and not post.is_self:
            count += 1
            columns.update(map(str, row))
            if count == _ENOUGH:
                _check_columns(path, columns)
        yield post
    if count:
        _check_columns(path, columns)


def _check_columns(path: DataPath, columns: set[str]) -> None:
    if "url" not in columns or not columns & {*SCORES}:
        name = "score (or ups)" if "url" in columns else "url"
        raise GlassformerError(
            f"{path} has no column {name} (columns: {', '.join(sorted(columns)) or 'none'}). "
            "Pass a dump of posts, not of comments."
        )


# --- from a row to a post ---


def _post(row: Row) -> Post:
    parents = row.get("crosspost_parent_list")
    origin = parents[0] if isinstance(parents, list) and parents else row
    origin = origin if isinstance(origin, dict) else row
    is_self = _is_true(origin.get("is_self")) or _text(origin.get("domain")).startswith("self.")
    return Post(
        _url(origin.get("url")),
        next((found for name in SCORES if (found := _number(row.get(name))) is not None), None),
        " ".join(html.unescape(_text(row.get("title"))).split()),
        _text(row.get("subreddit")) or _subreddit_in(_text(row.get("permalink"))),
        is_self,
        _is_true(row.get("over_18")) or _is_true(origin.get("over_18")),
    )


def _subreddit_in(permalink: str) -> str:
    found = re.search(r"/r/(\w+)/", permalink)
    return found[1] if found else ""


def _url(value: Any) -> str:
    """Only the characters that HTML must escape: `&copy=1` in a URL is a parameter."""
    text = _text(value).strip()
    while "&amp;amp;" in text:
        text = text.replace("&amp;amp;", "&amp;")
    for escaped, character in _ESCAPED.items():
        text = text.replace(escaped, character)
    return f"{_REDDIT}{text}" if text.startswith(("/r/", "/u/", "/user/")) else text


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _is_true(value: Any) -> bool:
    return value is True or str(value).strip().lower() in ("true", "1", "1.0")


def _text(value: Any) -> str:
    """A string that can be written as UTF-8: JSON can express half a character."""
    return _HALF.sub("\ufffd", value) if isinstance(value, str) else ""


# --- from a file to rows ---


def _rows(path: DataPath, malformed: Malformed) -> Iterator[Row]:
    kind = kind_of(path)
    with open_dump(path) as stream:
        if kind in TABLES:
            yield from _table(path, stream, malformed)
        elif kind == ".json":
            yield from _json(path, stream, malformed)
        else:
            yield from _json_lines(path, stream, malformed)


def _json_lines(path: DataPath, stream: BinaryIO, malformed: Malformed) -> Iterator[Row]:
    for number, line in numbered_lines(stream):
        place = f"{path}:{number}"
        if line is None:
            malformed(f"{place}: longer than {readable_size(LONGEST_LINE)}")
            continue
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if not text:
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            reason = str(error).replace("line 1 ", "")
            malformed(f"{place}: invalid JSON ({reason})")
            continue
        if isinstance(row, dict):
            yield row
        else:
            malformed(f"{place}: not a JSON object")


def _json(path: DataPath, stream: BinaryIO, malformed: Malformed) -> Iterator[Row]:
    """An array of posts, a listing of Reddit's API, or an object on each line."""
    content = stream.read(_LARGEST_JSON + 1)
    if len(content) > _LARGEST_JSON:
        raise GlassformerError(
            f"{path} has more than {readable_size(_LARGEST_JSON)}. Write it as .jsonl, with a "
            "post on each line."
        )
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        yield from _json_lines(path, io.BytesIO(content), malformed)
        return
    for number, each in enumerate(_posts_in(value), 1):
        inner = each.get("data") if isinstance(each, dict) else None
        row = inner if isinstance(inner, dict) else each
        if isinstance(row, dict):
            yield row
        else:
            malformed(f"{path}, post {number:,}: not a JSON object")


def _posts_in(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    inner = value.get("data") if isinstance(value, dict) else None
    children = inner.get("children") if isinstance(inner, dict) else inner
    return children if isinstance(children, list) else [value]


def _table(path: DataPath, stream: BinaryIO, malformed: Malformed) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_LINE)
    lines = _decoded_lines(path, stream, malformed)
    header, first = next(lines, ""), 1
    separator = declared_separator(header)
    if separator is None:
        separator = max(",;\t|", key=header.count)
    else:
        header, first = next(lines, ""), 2
    reader = csv.reader(chain((header,), lines), delimiter=separator, strict=True)
    names: list[str] = []
    while True:
        begin = reader.line_num + first
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "expected after" not in str(error):  # an open quote, which swallowed what follows
                raise GlassformerError(
                    f"{path}:{begin}: invalid CSV ({error}). Close the quoted field, and double "
                    "each quote inside it."
                ) from None
            malformed(f"{path}:{begin}: invalid CSV ({error})")
            continue
        if not names:
            names = [name.strip().lower() for name in fields]
            _check_columns(path, set(names))
        elif len(fields) == len(names):
            yield dict(zip(names, fields, strict=True))
        elif any(fields):
            malformed(f"{path}:{begin}: expected {len(names)} columns, found {len(fields)}")


def _decoded_lines(path: DataPath, stream: BinaryIO, malformed: Malformed) -> Iterator[str]:
    """Lines of a table. One that is not UTF-8 is read as Windows-1252, as browsers do."""
    for number, line in numbered_lines(stream):
        if line is None:
            malformed(f"{path}:{number}: longer than {readable_size(LONGEST_LINE)}")
            continue
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            yield line.decode("windows-1252", "replace")


# --- link rules ---
# The rules by which links are kept: what people recommended, and what can be a page of text.
#
# A post is dropped by the first rule that it breaks, in the order of `RULES`, and counted there.

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


# --- links ---

LINKS = "links.jsonl"
FORMAT = "glassformer links"
MOST_BAD_LINES = 100
_REPORTED = 10  # bad lines that are reported one by one
_NOW_AND_THEN = 1_000_000  # posts after which the progress is reported
_CANDIDATES = ".candidates.jsonl"  # links that passed the rules, with duplicates

Report = Callable[[str], None]


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
    report: Report = lambda text: None,
) -> Links:
    """Read dumps of posts and write the links that pass the rules into the folder `out`."""
    check_free(out, force, FORMAT)
    files, others = dump_files(posts)
    if others:
        names = ", ".join(sorted(path.name for path in others)[:3])
        more = ", …" if len(others) > 3 else ""
        report(f"skipped {counted(len(others), 'file')} without posts: {names}{more}.")
    with new_folder(out, has_own_manifest=True) as folder:
        candidates = folder / _CANDIDATES
        with candidates.open("wb", buffering=2**20) as stream:
            reading = _Reading(stream, rules, max_bad_lines, report)
            sources = [{"file": path.name, "posts": reading.read(path)} for path in files]
        if not reading.num_read:
            raise GlassformerError(f"{', '.join(posts)} contains no posts. Pass other --posts.")
        with candidates.open("rb", buffering=2**12) as stream:  # lines here and there
            found = reading.write_best(stream, folder / LINKS)
        candidates.unlink()
        _write_manifest(folder, found, rules, sources)
    return found


def link_in(line: bytes | str, place: str) -> dict[str, Any]:
    """A link from a line of links.jsonl."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        link: dict[str, Any] = json.loads(line)
        if isinstance(link["url"], str):
            return link
    raise GlassformerError(f'{place}: not a link. Write each line as {{"url": "…"}}.')


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
        self, candidates: BinaryIO, rules: LinkRules, max_bad_lines: int, report: Report
    ) -> None:
        self._candidates, self._rules = candidates, rules
        self._max_bad_lines, self._report = max_bad_lines, report
        self.num_read = 0
        self._dropped: Counter[str] = Counter()
        self._keys, self._scores = array("Q"), array("d")
        self._ties, self._places = array("Q"), array("Q")
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
                self._report(f"{self.num_read:,} posts read, {len(self._keys):,} links so far.")
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
            self._report(f"skipped {problem}.")

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
        self._places.append(self._end)
        self._end += self._candidates.write(line)

    def write_best(self, candidates: BinaryIO, path: Path) -> Links:
        """Write the best of each group of equal links."""
        import numpy as np

        keys, scores = np.asarray(self._keys), np.asarray(self._scores)
        order = np.lexsort((np.asarray(self._ties), -scores, keys))
        is_first = np.ones(len(keys), dtype=bool)
        is_first[1:] = keys[order][1:] != keys[order][:-1]
        kept = order[is_first]
        with path.open("wb") as target:
            for place in np.asarray(self._places)[kept].tolist():
                candidates.seek(place)
                target.write(candidates.readline())
        self._dropped["duplicate"] = len(keys) - len(kept)
        dropped = {rule: self._dropped[rule] for rule in RULES}
        return Links(self.num_read, len(kept), dropped)


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")


def _write_manifest(
    folder: Path, found: Links, rules: LinkRules, sources: list[dict[str, Any]]
) -> None:
    file = folder / LINKS
    settings = {
        "min_score": rules.min_score,
        "exclude_domains": sorted(rules.exclude),
        "include_domains": sorted(rules.include),
    }
    write_json(
        folder / MANIFEST,
        {
            "format": FORMAT,
            **found.as_json(),
            "settings": settings,
            "sources": sources,
            "files": {LINKS: {"bytes": file.stat().st_size, "sha256": file_digest(file)}},
        },
    )
