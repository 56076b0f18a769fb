"""From WARC records to texts that pass all rules: the step that does most of the work.

    ListRecords   the records of each file, and where work can be divided
    ReadPages     record → page → text → language and quality → fingerprints

The files of a task:

pages/00000.jsonl       the texts, one document per line
pages/00000.index       where each begins, its digest, and where its shingles are
pages/00000.shingles    the shingles of all texts
pages/00000.json        what became of the pages
signatures/bucket_…     the MinHash of all texts, sorted, as datatrove reads it
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.corpus import near_duplicates, size_and_hash
from glassformer.corpus.extractor import shared_extractor
from glassformer.corpus.http import BodyError, parse_message, within
from glassformer.corpus.links import Linked, key_of, read_linked, redirect
from glassformer.corpus.quality import ANY, NUM_BUCKETS, BuildSettings, judge, language_of
from glassformer.corpus.urls import BadUrlError, parse_url
from glassformer.corpus.warc import BrokenWarcError, Record, read_records
from glassformer.files import write_json_line
from glassformer.wording import counted, shortened

# --- from a record to a page, or the rule by which it is none ---

_HEADERS = 2**16  # bytes of an HTTP message before its body
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = "text/plain"
_ROBOTS_TXT = re.compile(r"https?://[^/?#]*/robots\.txt", re.IGNORECASE)


class DroppedError(Exception):
    """A page that does not become part of the corpus."""

    def __init__(self, rule: str, detail: str = "", text: str = "", title: str = "") -> None:
        super().__init__(rule)
        self.rule, self.detail, self.text, self.title = rule, detail, text, title


@dataclass(frozen=True)
class Page:
    """A page as the server sent it, without compression."""

    url: str
    date: str
    body: bytes
    content_type: str
    about: dict[str, Any]
    """What is known of the link that led to it."""

    @property
    def is_html(self) -> bool:
        return media_type(self.content_type) != _TEXT


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def page_of(record: Record, linked: Linked | None, most: int) -> Page:
    """The page in a record. Without `linked`, every page is wanted."""
    is_whole = record.length <= most + _HEADERS
    block = record.beginning(record.length if is_whole else _HEADERS)
    message = parse_message(block)
    if record.kind == "response":
        if message is None:
            raise DroppedError("page/not_http", media_type(record.content_type))
        if message.status != 200:
            raise DroppedError("page/status", str(message.status))
        content_type = message.headers.get("content-type", "") or _guessed(message.raw_body)
    else:
        message, content_type = None, record.content_type
    if _ROBOTS_TXT.fullmatch(record.url):
        raise DroppedError("page/robots_txt")
    if media_type(content_type) not in (*_HTML, _TEXT):
        raise DroppedError("page/type", media_type(content_type)[:80])
    about = {} if linked is None else _link_to(record, linked)
    if about is None:
        raise DroppedError("page/not_linked")
    if not is_whole:
        raise DroppedError("page/too_large", f"{record.length:,} bytes")
    try:
        body = within(block, most) if message is None else message.body(most)
    except BodyError as error:
        raise DroppedError(f"page/{error.rule}", str(error)) from None
    return Page(record.url, record.date, body, content_type, about)


def _link_to(record: Record, linked: Linked) -> dict[str, Any] | None:
    """What is known of the link that led to a page; None if there is none."""
    by_url = linked.get(key_of(record.url))
    return linked.get(key_of(record.link)) if by_url is None and record.link else by_url


def _guessed(body: bytes) -> str:
    """The type of a body for which the server named none."""
    return "text/html" if body.lstrip()[:1] == b"<" else ""


# --- the first pass: how many records there are, and where work can be divided ---
#
# A file is divided into slices of whole records, which later tasks read on their own. How it is
# divided follows from the files alone, never from the number of workers.

_HEAD = 2**14  # bytes of a response in which its headers are
_PAGES = 32  # in a slice, at least
_TASKS = 512  # at most, and as many as there are files if these are more; rounded up
_LEAST = 128  # pages of a task
_NOTES = 3  # about damage to a file


@dataclass(frozen=True)
class Slice:
    """Some records of a file: so many from the one at `offset`."""

    file: int
    offset: int
    num_records: int
    num_pages: int


@dataclass(frozen=True)
class ListRecords:
    """A step for datatrove: list the records of one file."""

    files: tuple[Path, ...]
    out: Path

    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        write_json_line(self.out / f"{rank:05}.json", listed(self.files[rank]))


def listed(path: Path) -> dict[str, Any]:
    """The slices of a file, its redirects, and where it is damaged."""
    listing: dict[str, Any] = {"num_records": 0, "num_pages": 0, "slices": [], "redirects": {}}
    listing |= {"notes": [], "num_damaged": 0, "hidden": {}}
    for record in read_records(path, damage=partial(_note_damage, listing)):
        _add(listing, record)
        if record.kind == "response":
            _note_redirect(listing["redirects"], record)
    if (more := listing["num_damaged"] - _NOTES) > 0:
        listing["notes"].append(f"{path}: {counted(more, 'more damaged place')}.")
    return {"name": path.name} | size_and_hash(path) | listing


def _note_damage(listing: dict[str, Any], error: BrokenWarcError) -> None:
    listing["num_damaged"] += 1
    if listing["num_damaged"] <= _NOTES:
        listing["notes"].append(str(error))
    if error.hides_record:  # one that was given is counted when its page is read
        listing["hidden"][error.rule] = listing["hidden"].get(error.rule, 0) + 1


def _add(listing: dict[str, Any], record: Record) -> None:
    listing["num_records"] += 1
    listing["num_pages"] += record.may_be_page
    slices = listing["slices"]
    if not slices or (slices[-1][2] >= _PAGES and record.is_seekable):
        slices.append([record.offset, 0, 0])
    slices[-1][1] += 1
    slices[-1][2] += record.may_be_page


def _note_redirect(redirects: dict[str, str], record: Record) -> None:
    try:
        message = parse_message(record.beginning(_HEAD))
    except BrokenWarcError:  # which is noted when the record is skipped
        return
    if message is not None and 300 <= message.status < 400 and "location" in message.headers:
        source, target = redirect(record.url, message.headers["location"])
        redirects.setdefault(source, target)


def tasks_for(listings: list[dict[str, Any]]) -> list[list[Slice]]:
    """The slices of all files in tasks of similar size: enough to share, few enough to merge."""
    total = sum(listing["num_pages"] for listing in listings)
    size = max(_LEAST, -(-total // _TASKS))
    tasks: list[list[Slice]] = [[]]
    filled = 0
    for file, listing in enumerate(listings):
        for offset, num_records, num_pages in listing["slices"]:
            if filled >= size:
                tasks.append([])
                filled = 0
            tasks[-1].append(Slice(file, offset, num_records, num_pages))
            filled += num_pages
    return tasks


# --- what became of pages: counts by rule, and a few examples of each ---
#
# Every page that was read is either kept or counted under exactly one rule, named step/rule.
# Examples are those whose hash is smallest, so that they depend neither on the order of the pages
# nor on how the work was divided.

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
        examples = self.examples.setdefault(rule, [])
        if len(examples) >= EXAMPLES and key >= examples[-1]["key"]:
            return
        example = {
            "key": key,
            "url": shortened(url, 300),
            "title": title,
            "detail": detail,
            "text": shortened(text[: 4 * _SHOWN], _SHOWN),
        }
        examples.append(example)
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
            "counts": dict(sorted(self.counts.items(), key=_in_order)),
            "languages": dict(sorted(self.languages.items())),
            "examples": dict(sorted(self.examples.items())),
        }

    def _keep_smallest(self, rule: str) -> None:
        self.examples[rule] = sorted(self.examples[rule], key=lambda example: str(example["key"]))
        del self.examples[rule][EXAMPLES:]


def _in_order(count: tuple[str, int]) -> tuple[int, str]:
    """Rules in the order of the steps."""
    step = count[0].partition("/")[0]
    return [*STEPS, step].index(step), count[0]


# --- the second pass: from the records of a task to texts ---


@dataclass(frozen=True)
class ReadPages:
    """A step for datatrove: the pages of one task."""

    files: tuple[Path, ...]
    tasks: list[list[Slice]]
    settings: BuildSettings
    linked: Path | None
    out: Path
    signatures: Path

    def __call__(self, data: Any, rank: int, world_size: int) -> None:
        outcomes = Outcomes()
        with _Writer(self.out / f"{rank:05}", self.signatures, rank) as writer:
            for record in self._records(self.tasks[rank]):
                outcomes.read += 1
                try:
                    writer.add(self._document(record, outcomes))
                except DroppedError as drop:
                    outcomes.add(drop.rule, record.url, drop.text, drop.detail, drop.title)
        write_json_line(self.out / f"{rank:05}.json", outcomes.as_json())

    def _records(self, slices: list[Slice]) -> Iterator[Record]:
        """The records that may be pages."""
        for part in slices:
            records = read_records(self.files[part.file], part.offset)  # damage was listed
            for record in islice(records, part.num_records):
                if record.may_be_page:
                    yield record

    def _document(self, record: Record, outcomes: Outcomes) -> dict[str, Any]:
        linked = None if self.linked is None else read_linked(self.linked)
        try:
            page = page_of(record, linked, self.settings.max_page_bytes)
        except BrokenWarcError as error:
            raise DroppedError(f"record/{error.rule}", str(error)) from None
        extracted = shared_extractor(self.settings.page_seconds).extract(
            page.body, page.content_type, page.is_html
        )
        text, title = extracted.text, extracted.title
        if extracted.rule:
            raise DroppedError(f"extraction/{extracted.rule}", extracted.detail, title=title)
        language, probability = language_of(text)
        outcomes.languages[language] += 1
        self._check(text, title, language, probability)
        title = title or page.about.get("title", "")
        return {"text": text, "metadata": _about(page, title, language, probability)}

    def _check(self, text: str, title: str, language: str, probability: float) -> None:
        detail = f"{language}, probability {probability:.2f}"
        if self.settings.language != (ANY,):
            if language not in self.settings.language:
                raise DroppedError("language/other", detail, text, title)
            if probability < self.settings.language_threshold:
                raise DroppedError("language/unsure", detail, text, title)
        if rule := judge(self.settings.quality, language).rule_against(text):
            raise DroppedError(f"quality/{rule}", "", text, title)


def _about(page: Page, title: str, language: str, probability: float) -> dict[str, Any]:
    try:
        domain = parse_url(page.url).domain
    except BadUrlError:
        domain = ""
    about: dict[str, Any] = {"url": page.url, "title": title, "domain": domain, "date": page.date}
    about |= {"language": language, "language_probability": round(probability, 4)}
    return about | {name: value for name, value in page.about.items() if name != "title"}


class _Writer:
    """The files of a task. A task that is killed starts again and overwrites them."""

    def __init__(self, stem: Path, signatures: Path, rank: int) -> None:
        self._stem, self._signatures, self._rank = stem, signatures, rank
        self._index: list[tuple[Any, ...]] = []
        self._minima: list[list[list[int]]] = []
        self._end = self._num_shingles = 0  # of the texts, in bytes; of all of them

    def __enter__(self) -> "_Writer":
        self._texts = self._stem.with_suffix(".jsonl").open("wb")
        self._shingles = self._stem.with_suffix(".shingles").open("wb")
        return self

    def add(self, document: dict[str, Any]) -> None:
        text = document["text"]
        line = json.dumps(document, ensure_ascii=False).encode(errors="replace") + b"\n"
        hashed = near_duplicates.shingles(text)
        stored = np.unique(hashed.astype(near_duplicates.SHINGLE))
        self._texts.write(line)
        self._shingles.write(stored.tobytes())
        size, digest = len(text.encode(errors="replace")), near_duplicates.digest(text)
        self._index.append((self._end, size, digest, self._num_shingles, len(stored)))
        self._minima.append(near_duplicates.signature(hashed))
        self._end += len(line)
        self._num_shingles += len(stored)

    def __exit__(self, *error: Any) -> None:
        self._texts.close()
        self._shingles.close()
        if error[0] is None:
            index = np.array(self._index, dtype=near_duplicates.INDEX_ROW)
            self._stem.with_suffix(".index").write_bytes(index.tobytes())
            self._write_signatures()

    def _write_signatures(self) -> None:
        kind = near_duplicates.SIGNATURE_ROW
        for bucket in range(NUM_BUCKETS):
            rows = [(*minima[bucket], number) for number, minima in enumerate(self._minima)]
            ordered = np.sort(np.array(rows, dtype=kind), order=kind.names)
            folder = self._signatures / f"bucket_{bucket:03}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{self._rank:05}.minhash.sig").write_bytes(ordered.tobytes())
