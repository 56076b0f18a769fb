"""The first pass over WARC files: how many records there are, and where work can be divided.

A file is divided into slices of whole records, which later tasks read on their own. How it is
divided follows from the files alone, never from the number of workers.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.atomic_files import file_digest, write_json_line
from glassformer.corpus.http_message import parse_message
from glassformer.corpus.linked_pages import redirect
from glassformer.corpus.warc_files import BrokenWarcError, Record, read_records

_HEAD = 2**14  # bytes of a response in which its headers are
_PAGES = 32  # in a slice, at least
_TASKS = 512  # at most, and as many as there are files if these are more; rounded up
_LEAST = 128  # pages of a task


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
    """The slices of a file, its redirects, and where it is broken, if it is."""
    found: dict[str, Any] = {"num_records": 0, "num_pages": 0, "slices": [], "redirects": {}}
    try:
        for record in read_records(path):
            _add(found, record)
            if record.kind == "response":
                _note_redirect(found["redirects"], record)
    except BrokenWarcError as error:
        # A record that is incomplete is counted when its page is read.
        is_lost = error.hides_record
        found["broken"] = {"note": str(error), "rule": error.rule, "hides_record": is_lost}
    about = {"name": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)}
    return about | found


def _add(found: dict[str, Any], record: Record) -> None:
    found["num_records"] += 1
    found["num_pages"] += record.may_be_page
    slices = found["slices"]
    if not slices or (slices[-1][2] >= _PAGES and record.is_seekable):
        slices.append([record.offset, 0, 0])
    slices[-1][1] += 1
    slices[-1][2] += record.may_be_page


def _note_redirect(redirects: dict[str, str], record: Record) -> None:
    message = parse_message(record.beginning(_HEAD))
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
