"""The first pass over WARC files: how many records there are, and where work can be divided.

A file is divided into slices of whole records, which later tasks read on their own. How it is
divided follows from the files alone, never from the number of workers.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.atomic_files import file_digest, write_json_line
from glassformer.corpus.http_message import parse_message
from glassformer.corpus.linked_pages import redirect
from glassformer.corpus.warc_files import Record, read_records
from glassformer.corpus.warc_stream import BrokenWarcError
from glassformer.wording import counted

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
