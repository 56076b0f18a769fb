"""Text files, plain or gzipped: opened, decoded and read line by line."""

import codecs
import difflib
import gzip
import io
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO, TypeVar, cast

from glassformer.errors import GlassformerError, UsageError

T = TypeVar("T")
_GIVE = "Pass a file, a folder, or a Hugging Face dataset such as roneneldan/TinyStories."


class EmptyError(GlassformerError):
    """A file, folder or dataset has no content."""


def at_least_one(items: Iterable[T], problem: str) -> Iterator[T]:
    """Pass items through; if there are none, raise an EmptyError that states the problem."""
    is_empty = True
    for item in items:
        is_empty = False
        yield item
    if is_empty:
        raise EmptyError(problem)


def local_path(name: str | Path) -> Path:
    """The path of that name, with a leading `~/` expanded."""
    return Path(name).expanduser() if str(name).startswith("~/") else Path(name)


def ending(path: Path) -> str:
    """`.csv` for both `Reviews.CSV` and `reviews.csv.gz`."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def read_all(
    paths: Iterable[str],
    read: Callable[[str], Iterable[T]],
    files_of: Callable[[Path], Iterable[Path]],
) -> Iterator[T]:
    """What `read` finds in files, hub datasets and folders, one item at a time and in order."""
    for name in paths:
        with reading(name):
            folder = local_path(name)
            if folder.is_dir():
                found = _read_files(files_of(folder), read)
                yield from at_least_one(found, f"{folder} contains only empty files.")
            else:
                yield from read(name)


def _read_files(files: Iterable[Path], read: Callable[[str], Iterable[T]]) -> Iterator[T]:
    for file in files:
        with suppress(EmptyError):  # an empty file among others does no harm
            yield from read(str(file))


@contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """Turn errors of the operating system and of gzip into errors that name the file."""
    try:
        yield
    except EOFError:
        raise GlassformerError(f"{name} is truncated. Download it again.") from None
    except (gzip.BadGzipFile, zlib.error):
        raise GlassformerError(f"{name} is not gzip, or is damaged. Download it again.") from None
    except OSError as error:
        raise GlassformerError(f"{name} cannot be read: {error.strerror or error}.") from None


@contextmanager
def open_text(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open a file, plain or gzipped, as text without a byte order mark; lines end in `\\n`."""
    codec = check_encoding(encoding)
    with open_bytes(path) as raw:
        stream = io.TextIOWrapper(raw, "utf-8-sig" if codec == "utf-8" else codec)
        try:
            yield stream
        except UnicodeError as error:
            raise _undecodable(path, codec, error, raw.tell()) from None


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    with reading(path):
        if path.stat().st_size == 0:
            raise EmptyError(f"{path} is empty. Pass a file that contains text.")
        is_gzip = path.suffix.lower() == ".gz"
        with cast(BinaryIO, gzip.open(path)) if is_gzip else path.open("rb") as raw:
            yield raw


def read_lines(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a file, plain or gzipped, one at a time, each with its `\\n`."""
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


def _undecodable(path: Path, codec: str, error: UnicodeError, end: int) -> GlassformerError:
    if not isinstance(error, UnicodeDecodeError):  # UTF-16 without a byte order mark
        return GlassformerError(f"{path}: invalid {codec} ({error}). Pass another --encoding.")
    # The decoder fails on its last chunk, which ends where reading stopped: count back from there.
    # Offsets start at 0.
    offset = end - len(error.object) + error.start
    found = error.object[error.start]
    cure = "Pass the --encoding it was saved in."
    if codec.startswith("utf-8"):
        other = "utf-16" if offset == 0 and found in (0xFE, 0xFF) else "latin-1"
        if other == "latin-1" and b"\0" in error.object:
            return GlassformerError(
                f"{path} is a binary file, not text. Pass a text file or a table."
            )
        codec, cure = "UTF-8", f"Save it as UTF-8, or pass --encoding {other}."
    return GlassformerError(f"{path}, byte {offset:,}: invalid {codec} (0x{found:02X}). {cure}")


def visible_entries(folder: Path) -> list[Path]:
    """Files and folders directly inside `folder`, by name, without hidden ones."""
    entries = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entries, key=lambda entry: entry.name)


def files_in(folder: Path, endings: Collection[str]) -> list[Path]:
    """The files with these endings directly inside `folder`, by name."""
    entries = visible_entries(folder)
    return [entry for entry in entries if entry.is_file() and ending(entry) in endings]


def files_below(folder: Path, endings: Collection[str], seen: set[Path]) -> Iterator[Path]:
    """The same in subfolders, too; each folder once, even if links form a loop."""
    if folder.resolve() in seen:
        return
    seen.add(folder.resolve())
    for entry in visible_entries(folder):
        if entry.is_dir():
            yield from files_below(entry, endings, seen)
        elif entry.is_file() and ending(entry) in endings:
            yield entry


def missing(path: Path, cure: str = _GIVE) -> GlassformerError:
    folder = path.parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    if near := difflib.get_close_matches(path.name, names, n=1, cutoff=0.8):
        cure = f"Did you mean {folder / near[0]}?"
    return GlassformerError(f"{path} does not exist. {cure}")
