"""The folder of fetched pages: WARC files, and what became of each link.

    pages/pages-00000.warc.gz            complete files, for this and every other tool
    pages/.pages-00001.warc.gz.partial   the file that is being written
    pages/outcomes.jsonl                 a line for each link: its outcome, and where its page is
    pages/manifest.json                  the settings, and in the end the counts and hashes

A page is written first, then the line that names its place. After a kill, the lines up to the last
one whose page is whole are what counts, whatever a kill or a power failure left: what follows is
cut off, and those links are fetched again.
"""

import json
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from glassformer import files
from glassformer.corpus import size_and_hash
from glassformer.corpus.http import may_pass
from glassformer.corpus.warc import Page, page_records, warcinfo
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause

OUTCOMES_FILE = "outcomes.jsonl"
FORMAT = "glassformer pages"
LARGEST_FILE = 10**9  # bytes of a WARC file, as in other collections
_AGAIN = "Delete the folder and fetch again, or pass another --out."

Line = dict[str, Any]


class PageStore:
    """Records outcomes, from any thread. Closing it completes the current file."""

    def __init__(
        self, folder: Path, about: dict[str, Any], largest_file: int, retry: bool = False
    ) -> None:
        self.folder, self._largest_file = folder, largest_file
        self.counts: Counter[str] = Counter()
        self.done = bytearray()  # by the number of a link, 1 if it has an outcome
        self._about = about
        self._lock, self._is_closed = threading.Lock(), False
        self._file: BinaryIO | None = None
        self._end = 0  # of the last page in it that has an outcome
        with files.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._check_manifest()
            if retry:
                self._forget_failures()
            self._number = self._recover()
            self._outcomes = (folder / OUTCOMES_FILE).open("ab", buffering=0)

    # --- what an earlier process left ---

    def _check_manifest(self) -> None:
        path = self.folder / files.MANIFEST
        if not path.exists():
            if any(path.name != f".{files.MANIFEST}.partial" for path in self.folder.iterdir()):
                raise UsageError(f"{self.folder} contains something else. Pass another --out.")
            files.write_json(path, {"format": FORMAT, **self._about})
            return
        saved = files.read_manifest(self.folder)
        if saved.get("format") != FORMAT:
            raise UsageError(f"{self.folder} contains something else. Pass another --out.")
        if saved.get("links_sha256") != self._about["links_sha256"]:
            raise UsageError(f"{self.folder} contains pages of other links. Pass another --out.")

    def _recover(self) -> int:
        """Cut off what is not whole. Returns the number of the next WARC file."""
        path = self.folder / OUTCOMES_FILE
        path.touch()
        partials = sorted(self.folder.glob(".pages-*.warc.gz.partial"))
        whole = {_name_of(partial): _whole_length(partial) for partial in partials}
        ends: dict[str, int] = {}
        length = 0
        for end, line in _lines(path):
            if not self._is_there(line, whole):
                break
            length = end
            self._count(line)
            if "file" in line:
                ends[line["file"]] = line["offset"] + line["length"]
        with path.open("r+b") as stream:
            stream.truncate(length)
        for partial in partials:
            self._finish(partial, ends.get(_name_of(partial), 0))
        numbers = [int(path.name[6:11]) for path in self.folder.glob("pages-*.warc.gz")]
        return max(numbers, default=-1) + 1

    def _forget_failures(self) -> None:
        """Drop the outcomes that another try may change."""
        path = self.folder / OUTCOMES_FILE
        path.touch()
        with files.new_file(path) as partial, partial.open("wb") as kept:
            for _, line in _lines(path):
                if not may_pass(line["outcome"]):
                    kept.write(files.json_line(line))

    def _is_there(self, line: Line, whole: dict[str, int]) -> bool:
        """Whether the page of an outcome is on disk."""
        if (name := line.get("file")) is None:
            return True
        end = line["offset"] + line["length"]
        if name in whole:
            return bool(end <= whole[name])
        path = self.folder / name
        if not path.is_file() or path.stat().st_size < end:
            problem = "is missing" if not path.is_file() else "is damaged: it is too short"
            raise GlassformerError(f"{path} {problem}. {_AGAIN}")
        return True

    def _finish(self, partial: Path, end: int) -> None:
        """Complete a file whose pages end there, or delete it if it has none."""
        if end == 0:
            partial.unlink()
            return
        with partial.open("r+b") as stream:
            stream.truncate(end)
        files.sync(partial)
        partial.rename(self.folder / _name_of(partial))

    # --- writing ---

    def add(self, number: int, url: str, outcome: str, detail: str, page: Page | None) -> None:
        """Record the outcome of a link and its page, if it was fetched."""
        records = None if page is None else page_records(page, url)
        line: Line = {"number": number, "url": url, "outcome": outcome}
        line |= {"detail": detail} if detail else {}
        with self._lock, files.explained(self.folder):
            if self._is_closed:
                return
            if page is not None and records is not None:
                line |= {"final_url": str(page.url), "bytes": len(page.response.body)}
                line |= self._write_records(records)
            write_all(self._outcomes, files.json_line(line))
            self._count(line)
            if self._file is not None:
                self._end = self._file.tell()
                if self._end >= self._largest_file:
                    self._rotate()

    def _write_records(self, records: bytes) -> Line:
        if self._file is None:
            self._file = self._partial.open("wb", buffering=0)
            write_all(self._file, warcinfo(self._name, self._about))
        offset = self._file.tell()
        write_all(self._file, records)
        return {"file": self._name, "offset": offset, "length": len(records)}

    def snapshot(self) -> Counter[str]:
        """The number of links by outcome, as of now."""
        with self._lock:
            return self.counts.copy()

    @property
    def _name(self) -> str:
        return f"pages-{self._number:05}.warc.gz"

    @property
    def _partial(self) -> Path:
        return self.folder / f".{self._name}.partial"

    def _rotate(self) -> None:
        """Complete the current file, without what a failed write may have left at its end."""
        if self._file is not None:
            self._file.close()
            self._file = None
            # A page in a complete file has an outcome for good.
            files.sync(self.folder / OUTCOMES_FILE)
            self._finish(self._partial, self._end)
            self._number, self._end = self._number + 1, 0

    def _count(self, line: Line) -> None:
        number = line["number"]
        if number >= len(self.done):
            self.done.extend(bytes(number + 1 - len(self.done)))
        self.done[number] = 1
        self.counts[line["outcome"]] += 1

    def close(self) -> None:
        with self._lock, files.explained(self.folder):
            if self._is_closed:
                return
            self._is_closed = True
            self._rotate()
            self._outcomes.close()
            files.sync(self.folder / OUTCOMES_FILE)
            files.sync(self.folder)

    def complete(self) -> None:
        """All links have an outcome: say so in the manifest, with the hashes of all files."""
        names = sorted(path.name for path in self.folder.glob("pages-*.warc.gz"))
        hashes = {name: size_and_hash(self.folder / name) for name in (*names, OUTCOMES_FILE)}
        outcomes = dict(sorted(self.counts.items()))
        about = {"format": FORMAT, **self._about, "outcomes": outcomes, "files": hashes}
        files.write_json(self.folder / files.MANIFEST, about)


def write_all(file: Any, content: bytes) -> None:
    """Write to an unbuffered file, so that a failed write leaves nothing to be written later."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _name_of(partial: Path) -> str:
    return partial.name.removeprefix(".").removesuffix(".partial")


def _lines(path: Path) -> Iterator[tuple[int, Line]]:
    """Whole lines, each with the place where it ends."""
    end = 0
    with path.open("rb") as stream:
        for raw in stream:
            try:
                line = json.loads(raw)
                is_whole = raw.endswith(b"\n") and isinstance(line["number"], int)
            except (ValueError, KeyError, TypeError, RecursionError):
                is_whole = False
            if not is_whole:
                if stream.read(1):
                    raise GlassformerError(f"{path}, byte {end:,}: not an outcome. {_AGAIN}")
                return
            end += len(raw)
            yield end, line


def _whole_length(path: Path) -> int:
    """The bytes of a WARC file up to the last record that is not cut off or damaged."""
    length = 0
    try:
        with path.open("rb") as stream:
            while _skip_member(stream):
                length = stream.tell()
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
    return length


def _skip_member(stream: BinaryIO) -> bool:
    """Read one record, which is a gzip member of its own; False at the end or at damage."""
    member = zlib.decompressobj(16 + zlib.MAX_WBITS)
    while not member.eof:
        block = stream.read(2**16)
        if not block:
            return False
        try:
            member.decompress(block)
        except zlib.error:
            return False
    stream.seek(-len(member.unused_data), 1)
    return True
