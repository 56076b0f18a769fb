"""The step that does most of the work: from the records of a task to texts that pass all rules.

pages/00000.jsonl       the texts, one document per line
pages/00000.index       where each begins, its digest, and where its shingles are
pages/00000.shingles    the shingles of all texts
pages/00000.json        what became of the pages
signatures/bucket_…     the MinHash of all texts, sorted, as datatrove reads it
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.corpus.extractor import shared_extractor
from glassformer.corpus.fingerprints import SIGNATURE_ROW, digest, shingles, signature
from glassformer.corpus.http import BodyError, parse_message, within
from glassformer.corpus.linked_pages import Linked, Outcomes, key_of, read_linked, redirect
from glassformer.corpus.quality import ANY, NUM_BUCKETS, BuildSettings, judge, language_of
from glassformer.corpus.urls import BadUrlError, parse_url
from glassformer.corpus.warc import BrokenWarcError, Record, read_records
from glassformer.files import file_digest, write_json_line
from glassformer.wording import counted

# --- pages ---
# From a WARC record to the bytes of a page, or the rule by which it is none.

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


# --- record listing ---
# The first pass over WARC files: how many records there are, and where work can be divided.
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
    found: dict[str, Any] = {"num_records": 0, "num_pages": 0, "slices": [], "redirects": {}}
    found |= {"notes": [], "num_damaged": 0, "hidden": {}}
    for record in read_records(path, damage=partial(_note_damage, found)):
        _add(found, record)
        if record.kind == "response":
            _note_redirect(found["redirects"], record)
    if (more := found["num_damaged"] - _NOTES) > 0:
        found["notes"].append(f"{path}: {counted(more, 'more damaged place')}.")
    about = {"name": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)}
    return about | found


def _note_damage(found: dict[str, Any], error: BrokenWarcError) -> None:
    found["num_damaged"] += 1
    if found["num_damaged"] <= _NOTES:
        found["notes"].append(str(error))
    if error.hides_record:  # one that was given is counted when its page is read
        found["hidden"][error.rule] = found["hidden"].get(error.rule, 0) + 1


def _add(found: dict[str, Any], record: Record) -> None:
    found["num_records"] += 1
    found["num_pages"] += record.may_be_page
    slices = found["slices"]
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
    total = sum(each["num_pages"] for each in listings)
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


# --- page step ---

INDEX_ROW = np.dtype(
    [
        *(("begin", "<u8"), ("num_bytes", "<u8"), ("digest", "<u8", (2,))),
        *(("first_shingle", "<u8"), ("num_shingles", "<u8")),
    ]
)
SHINGLE = np.dtype("<u4")  # enough to compare two texts


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
        for each in slices:
            records = read_records(self.files[each.file], each.offset)  # damage was listed
            for record in islice(records, each.num_records):
                if record.may_be_page:
                    yield record

    def _document(self, record: Record, outcomes: Outcomes) -> dict[str, Any]:
        linked = None if self.linked is None else read_linked(self.linked)
        try:
            page = page_of(record, linked, self.settings.max_page_bytes)
        except BrokenWarcError as error:
            raise DroppedError(f"record/{error.rule}", str(error)) from None
        found = shared_extractor(self.settings.page_seconds).extract(
            page.body, page.content_type, page.is_html
        )
        if found.rule:
            raise DroppedError(f"extraction/{found.rule}", found.detail, title=found.title)
        language, probability = language_of(found.text)
        outcomes.languages[language] += 1
        self._check(found.text, found.title, language, probability)
        title = found.title or page.about.get("title", "")
        return {"text": found.text, "metadata": _about(page, title, language, probability)}

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
        self._place = self._num_shingles = 0

    def __enter__(self) -> "_Writer":
        self._texts = self._stem.with_suffix(".jsonl").open("wb")
        self._shingles = self._stem.with_suffix(".shingles").open("wb")
        return self

    def add(self, document: dict[str, Any]) -> None:
        text = document["text"]
        line = json.dumps(document, ensure_ascii=False).encode(errors="replace") + b"\n"
        hashed = shingles(text)
        stored = np.unique(hashed.astype(SHINGLE))
        self._texts.write(line)
        self._shingles.write(stored.tobytes())
        size = len(text.encode(errors="replace"))
        self._index.append((self._place, size, digest(text), self._num_shingles, len(stored)))
        self._minima.append(signature(hashed))
        self._place += len(line)
        self._num_shingles += len(stored)

    def __exit__(self, *error: Any) -> None:
        self._texts.close()
        self._shingles.close()
        if error[0] is None:
            index = np.array(self._index, dtype=INDEX_ROW)
            self._stem.with_suffix(".index").write_bytes(index.tobytes())
            self._write_signatures()

    def _write_signatures(self) -> None:
        for bucket in range(NUM_BUCKETS):
            rows = [(*minima[bucket], number) for number, minima in enumerate(self._minima)]
            found = np.sort(np.array(rows, dtype=SIGNATURE_ROW), order=SIGNATURE_ROW.names)
            folder = self._signatures / f"bucket_{bucket:03}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{self._rank:05}.minhash.sig").write_bytes(found.tobytes())
