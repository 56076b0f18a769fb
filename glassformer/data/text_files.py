"""Text files, plain, compressed or in archives: opened, decoded and read line by line."""

import codecs
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import BinaryIO, TextIO, TypeVar

from glassformer.data.archives import COMPRESSIONS, Member, bounded, is_archive
from glassformer.data.encodings import Decoding, NotTextError, decide, is_binary
from glassformer.data.reading_report import MALFORMED, report
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause, similar

T = TypeVar("T")
DataPath = Path | Member
_DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)
_GIVE = "Pass a file, a folder, or a Hugging Face dataset such as roneneldan/TinyStories."


class EmptyError(GlassformerError):
    """A file, folder or dataset has no content."""


class SkippedError(GlassformerError):
    """A file cannot be used; among others it is skipped."""

    reason: str
    """Why, in a few words."""


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


def local_path(name: str | Path) -> DataPath:
    """The path of that name, with a leading `~/` expanded. An archive is a folder."""
    path = Path(name).expanduser() if str(name).startswith("~/") else Path(name)
    for outer in (path, *path.parents):
        if is_archive(outer) and outer.is_file():
            inside = path.relative_to(outer).as_posix()
            return Member(outer, "" if inside == "." else inside)
    return path


def ending(path: DataPath) -> str:
    """`.csv` for both `Reviews.CSV` and `reviews.csv.gz`."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSIONS else suffix


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
        found = _decided(path, codec, about.st_mtime_ns, about.st_size)
    if found.described is not None:
        report().decoded(path, found.described)
    return found


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
        return is_binary(raw.read(2**16))


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
    found = error.object[error.start]
    return NotTextError(
        f"{path}, byte {offset:,}: invalid {codec} (0x{found:02X}). Pass the --encoding it was "
        "saved in."
    )


def missing(path: DataPath, cure: str = _GIVE) -> GlassformerError:
    folder = path.parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    if near := similar(path.name, names, cutoff=0.8):
        cure = f"Did you mean {folder / near}?"
    return GlassformerError(f"{path} does not exist. {cure}")
