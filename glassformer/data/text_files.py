"""Text files, plain, compressed or in archives: opened, decoded and read line by line.

    reviews.csv   reviews.csv.gz   reviews.zip/2024/reviews.csv

Names stay strings, and a path may lead into an archive: readers use such a path like any other, so
every format works in archives. What was read, skipped and detected is collected in a report.
"""

import codecs
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from pathlib import Path, PurePath
from typing import BinaryIO, TextIO, TypeVar

from glassformer.data.archives import COMPRESSIONS, DataPath, Member, bounded
from glassformer.data.encodings import HEAD, Decoding, NotTextError, decide, is_binary
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause, counted, similar

# --- the report: how many files were read and skipped, and what was detected ---
#
#     with collecting() as report:
#         …                      # reads files, at any depth of calls
#     report.notes()             # "read 142 .py, 1 .rst; skipped 12 .png (binary)"
#
# The report is a context variable, as observers of attention are: the functions that skip or decode
# a file are far below those that print the note. Each file is reported once, however often it is
# read.

_SKIPPED_ENDINGS = 8  # that are counted separately
_NAMES = 3  # files that are named as examples
IGNORED = "named in .gitignore"
LINKED = "linked, already read"
UNRECOGNISED = "encoding not recognised"
MALFORMED = "malformed table"


class ReadingReport:
    def __init__(self) -> None:
        self._read: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._encodings: dict[str, str] = {}
        self._conversions: dict[str, dict[str, None]] = {}
        self._remarks: dict[str, None] = {}

    def read(self, name: object) -> None:
        """A file of a folder was read."""
        self._read[str(name)] = _ending(str(name))

    def skip(self, name: object, reason: str) -> None:
        """A file of a folder was skipped."""
        self._skipped[str(name)] = reason

    def decoded(self, name: object, encoding: str) -> None:
        """A file is not UTF-8, and was read in another encoding."""
        self._encodings[str(name)] = encoding

    def converted(self, name: object, how: str) -> None:
        """An image was converted; `how` completes "3 images …"."""
        self._conversions.setdefault(how, {})[str(name)] = None

    def remark(self, sentence: str) -> None:
        self._remarks[sentence] = None

    def notes(self) -> list[str]:
        read = Counter(ending for name, ending in self._read.items() if name not in self._skipped)
        kinds = Counter(
            IGNORED if reason == IGNORED else f"{_ending(name)} ({reason})"
            for name, reason in self._skipped.items()
        )
        parts = [f"read {_listed(read)}"] if read else []
        parts += [f"skipped {_listed(kinds)}"] if kinds else []
        conversions = (
            f"{counted(len(names), 'image')} {how} (first: {next(iter(names))})"
            for how, names in self._conversions.items()
        )
        read_and_skipped = filter(None, ["; ".join(parts)])
        return [
            *read_and_skipped,
            *(note for reason in (UNRECOGNISED, MALFORMED) for note in self._names_skipped(reason)),
            *self._encoding_notes(),
            *conversions,
            *self._remarks,
        ]

    def _names_skipped(self, why: str) -> Iterator[str]:
        """Names for a reason that a user may want to mend."""
        if names := [name for name, reason in self._skipped.items() if reason == why]:
            yield f"skipped ({why}): {_first(names)}"

    def _encoding_notes(self) -> Iterator[str]:
        if self._encodings:
            by_codec: dict[str, list[str]] = {}
            for name, codec in self._encodings.items():
                by_codec.setdefault(codec, []).append(name)
            shown = [f"{_first(names)} ({codec})" for codec, names in by_codec.items()]
            are = "is" if len(self._encodings) == 1 else "are"
            yield (
                f"{counted(len(self._encodings), 'file')} {are} not UTF-8 and read in another "
                f"encoding: {'; '.join(shown)}. If it is wrong, pass --encoding"
            )


_current: ContextVar[ReadingReport | None] = ContextVar("reading_report", default=None)


def report() -> ReadingReport:
    """The report that is being collected; one that nobody reads if there is none."""
    return _current.get() or ReadingReport()


@contextmanager
def collecting() -> Iterator[ReadingReport]:
    """Collect what is reported inside. An error carries what was reported before it."""
    reading_report = ReadingReport()
    token = _current.set(reading_report)
    try:
        with explaining(reading_report.notes):
            yield reading_report
    finally:
        _current.reset(token)


@contextmanager
def explaining(notes: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Add notes to an error, which they may explain: they are shown before it."""
    try:
        yield
    except GlassformerError as error:
        for note in notes():
            error.add_note(note)
        raise


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower() or "without extension"


def _first(names: list[str]) -> str:
    """a.txt, b.txt, c.txt, and 3 more"""
    more = len(names) - _NAMES
    return f"{', '.join(names[:_NAMES])}{f', and {more:,} more' if more > 0 else ''}"


def _listed(counts: Counter[str]) -> str:
    """142 .py, 1 .rst, and 3 others"""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{count:,} {what}" for what, count in ranked[:_SKIPPED_ENDINGS]]
    rest = sum(count for _, count in ranked[_SKIPPED_ENDINGS:])
    return ", ".join([*shown, *([f"and {counted(rest, 'other')}"] if rest else [])])


# --- text files ---

T = TypeVar("T")
_DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)
_GIVE = "Pass a file, a folder, or a Hugging Face dataset such as roneneldan/TinyStories."


class EmptyError(GlassformerError):
    """A file, folder or dataset has no content."""


class SkippedError(GlassformerError):
    """A file cannot be used; among others it is skipped."""

    reason: str
    """A short reason."""


class MalformedError(SkippedError):
    """A table does not follow the rules of its format."""

    reason = MALFORMED


def at_least_one(items: Iterable[T], problem: str) -> Iterator[T]:
    """Pass items through; if there are none, raise an EmptyError that states the problem."""
    is_empty = True
    for item in items:
        is_empty = False
        yield item
    if is_empty:
        raise EmptyError(problem)


@contextmanager
def reading(name: str | DataPath) -> Iterator[None]:
    """Turn errors of the operating system and of archives into errors that name the file."""
    try:
        yield
    except EOFError:
        raise GlassformerError(f"{name} is truncated. Download it again.") from None
    except _DAMAGED:
        kind = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}.get(
            Path(str(name)).suffix, "an archive"
        )
        raise GlassformerError(f"{name} is not {kind}, or is damaged. Download it again.") from None
    except OSError as error:
        raise GlassformerError(f"{name} cannot be read: {cause(error)}.") from None


@contextmanager
def open_text(path: DataPath, encoding: str) -> Iterator[TextIO]:
    """Open a file as text without a byte order mark; lines end in `\\n`. The encoding is that of a
    file that is not valid UTF-8; "utf-8": it is detected."""
    codec, errors, _ = decoding_of(path, encoding)
    with open_bytes(path) as raw:
        # UTF-16 and UTF-32 without a byte order in their name need the mark and skip it themselves.
        if codec not in ("utf-16", "utf-32", "utf-8-sig"):
            with suppress(UnicodeError):  # Latin-1 has no such mark
                mark = "\ufeff".encode(codec)
                if raw.read(len(mark)) != mark:
                    raw.seek(0)
        stream = io.TextIOWrapper(raw, codec, errors)
        try:
            yield stream
        except UnicodeError as error:
            raise _undecodable(path, codec, error, raw.tell()) from None


def decoding_of(path: DataPath, encoding: str) -> Decoding:
    """How a file is decoded, which is reported if it is not UTF-8."""
    codec = check_encoding(encoding)
    with reading(path):
        about = (path.archive if isinstance(path, Member) else path).stat()
        decoding = _decided(path, codec, about.st_mtime_ns, about.st_size)
    if decoding.described is not None:
        report().decoded(path, decoding.described)
    return decoding


@lru_cache(maxsize=2**16)
def _decided(path: DataPath, codec: str, modified: int, size: int) -> Decoding:
    return decide(partial(open_bytes, path), codec, str(path))


@contextmanager
def open_bytes(path: DataPath) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed."""
    with reading(path):
        if (path.size if isinstance(path, Member) else path.stat().st_size) == 0:
            raise EmptyError(f"{path} is empty. Pass a file that contains text.")
        with path.open("rb") as raw:
            if unpack := COMPRESSIONS.get(path.suffix.lower()):
                with bounded(unpack(raw), path) as unpacked:
                    yield unpacked
            else:
                yield raw


def looks_binary(path: DataPath) -> bool:
    """Whether a file, by its first bytes, contains no text."""
    with open_bytes(path) as raw:
        return is_binary(raw.read(HEAD))


def read_lines(path: DataPath, encoding: str) -> Iterator[str]:
    """The lines of a file, one at a time, each with its `\\n`."""
    with open_text(path, encoding) as stream:
        for number, line in enumerate(stream, 1):
            if "\0" in line:
                raise nul_at(f"{path}:{number}")
            yield line


def check_encoding(encoding: str) -> str:
    """Python's name for a text encoding; unknown names are refused."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise UsageError(
            f"unknown encoding {encoding!r}. Pass, for example, --encoding utf-8 or latin-1."
        ) from None
    return codecs.lookup(encoding).name


def nul_at(place: str) -> GlassformerError:
    return GlassformerError(
        f"{place}: NUL byte. Binary files are not text; if this is UTF-16, pass "
        "--encoding utf-16-le."
    )


def _undecodable(path: DataPath, codec: str, error: UnicodeError, end: int) -> GlassformerError:
    if not isinstance(error, UnicodeDecodeError):  # UTF-16 without a byte order mark
        return NotTextError(f"{path}: invalid {codec} ({error}). Pass another --encoding.")
    # The decoder fails on its last chunk, which ends where reading stopped: count back from there.
    # Offsets start at 0.
    offset = end - len(error.object) + error.start
    byte = error.object[error.start]
    return NotTextError(
        f"{path}, byte {offset:,}: invalid {codec} (0x{byte:02X}). Pass the --encoding it was "
        "saved in."
    )


def missing(path: DataPath, cure: str = _GIVE) -> GlassformerError:
    folder = path.parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    if near := similar(path.name, names, cutoff=0.8):
        cure = f"Did you mean {folder / near}?"
    return GlassformerError(f"{path} does not exist. {cure}")
