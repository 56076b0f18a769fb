"""Text files, plain, compressed or in archives: opened, decoded and read line by line.

    reviews.csv   reviews.csv.gz   reviews.zip/2024/reviews.csv

Names stay strings, and a path may lead into an archive: readers use such a path like any other, so
every format works in archives. What was read, skipped and detected is collected in a report.
"""

import bz2
import codecs
import gzip
import io
import lzma
import stat
import tarfile
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, BinaryIO, TextIO, TypeVar, cast

from glassformer.data.encodings import HEAD, Decoding, NotTextError, decide, is_binary
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause, counted, readable_size, similar

# --- archives (.zip, .tar, .tar.gz …) as folders: nothing is unpacked to disk ---
#
#     Member(Path("deu.zip"), "")          the archive as a folder
#     Member(Path("deu.zip"), "deu.txt")   a file in it, named deu.zip/deu.txt
#
# A member offers what readers use of a `Path`. Names that lead out of the archive, links and
# devices are not members. A compressed .tar can only be read forwards, so its members come in its
# own order, and the last one is kept in memory unless it is large.

COMPRESSIONS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_TARS = {".tgz": ".gz", ".tbz2": ".bz2", ".tbz": ".bz2", ".txz": ".xz"}
_ENDINGS = (".zip", ".tar", *_TARS, *(f".tar{each}" for each in COMPRESSIONS))
# A decompression bomb unpacks to more than this, and to more than this many times its size.
MOST_BYTES, MOST_RATIO = 2**30, 100
_IN_MEMORY = 2**26  # bytes of a member of a compressed .tar
_APPLE = "__MACOSX"  # resource forks that macOS adds to archives


def is_archive(path: Path | PurePosixPath) -> bool:
    """Whether a name is that of an archive."""
    return path.name.lower().endswith(_ENDINGS)


@dataclass(frozen=True)
class Member:
    """A file or folder in an archive."""

    archive: Path
    inside: str
    """Its name, without a slash at either end; empty for the archive itself."""

    def __str__(self) -> str:
        return f"{self.archive}/{self.inside}" if self.inside else str(self.archive)

    def __lt__(self, other: "Member") -> bool:
        return str(self) < str(other)

    @property
    def name(self) -> str:
        return PurePosixPath(self.inside).name if self.inside else self.archive.name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> "Member | Path":
        if not self.inside:
            return self.archive.parent
        return Member(self.archive, str(PurePosixPath(self.inside).parent).removeprefix("."))

    def __truediv__(self, name: str) -> "Member":
        return Member(self.archive, f"{self.inside}/{name}".lstrip("/"))

    def is_file(self) -> bool:
        return self.inside in self._content.sizes

    def is_dir(self) -> bool:
        return self.inside in self._content.folders

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Iterator["Member"]:
        return (self / name for name in self._content.folders.get(self.inside, ()))

    def resolve(self) -> "Member":
        return self

    @property
    def size(self) -> int:
        return self._content.sizes[self.inside]

    def open(self, mode: str = "rb") -> BinaryIO:
        return self._content.open(self.inside)

    @property
    def _content(self) -> "_Archive":
        about = self.archive.stat()
        return _opened(self.archive, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=4)
def _opened(path: Path, modified: int, size: int) -> "_Archive":
    return (_Zip if path.suffix.lower() == ".zip" else _Tar)(path)


class _Archive:
    """The files of an archive."""

    sizes: dict[str, int]
    """The sizes of its files, by name, in the order in which they are best read."""

    @cached_property
    def folders(self) -> dict[str, dict[str, None]]:
        """The names in each folder, in order."""
        folders: dict[str, dict[str, None]] = {"": {}}
        for name in self.sizes:
            while name:
                folder, _, last = name.rpartition("/")
                folders.setdefault(folder, {})[last] = None
                name = folder
        return folders

    def open(self, name: str) -> BinaryIO:
        raise NotImplementedError


_UTF_8 = 0x800  # the flag of a zip member whose name is UTF-8


class _Zip(_Archive):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = zipfile.ZipFile(path)
        self._entries = {
            name: entry
            for entry in sorted(self._file.infolist(), key=lambda entry: entry.filename)
            if not entry.is_dir()
            and not stat.S_ISLNK(entry.external_attr >> 16)
            and (name := _safe(_name_in_zip(entry)))
        }
        self.sizes = {name: entry.file_size for name, entry in self._entries.items()}
        # zipfile never reads more of a member than the size that is stated here.
        _check_bomb(path, sum(self.sizes.values()))

    def open(self, name: str) -> BinaryIO:
        entry = self._entries[name]
        if entry.flag_bits & 1:
            raise GlassformerError(f"{self._path} is encrypted. Unpack it, and pass the folder.")
        try:
            return cast(BinaryIO, self._file.open(entry))
        except NotImplementedError as error:
            raise GlassformerError(
                f"{self._path} cannot be read: {cause(error)}. Unpack it, and pass the folder."
            ) from None


class _Tar(_Archive):
    def __init__(self, path: Path) -> None:
        last = path.suffix.lower()
        raw: BinaryIO = path.open("rb")
        if unpack := COMPRESSIONS.get(_TARS.get(last, last)):
            raw.close()
            raw = bounded(unpack(path), path)
        weakref.finalize(self, raw.close)
        self._file = tarfile.open(fileobj=raw, mode="r:")  # noqa: SIM115
        regular = ((_safe(entry.name), entry) for entry in self._file if entry.isreg())
        self._entries = {name: entry for name, entry in regular if name}
        self.sizes = {name: entry.size for name, entry in self._entries.items()}
        self._last: tuple[str, bytes] = ("", b"")

    def open(self, name: str) -> BinaryIO:
        if self._last[0] != name:
            entry = self._entries[name]
            stream = self._file.extractfile(entry)
            if stream is None or entry.size > _IN_MEMORY:
                return cast(BinaryIO, stream)
            self._last = name, stream.read()
        return io.BytesIO(self._last[1])


def bounded(stream: Any, path: Path | Member) -> BinaryIO:
    """A stream that is being decompressed, and refused if it turns out to be a bomb."""
    packed = path.size if isinstance(path, Member) else path.stat().st_size
    return cast(BinaryIO, io.BufferedReader(_Bounded(stream, path, packed), 2**16))


class _Bounded(io.RawIOBase):
    def __init__(self, stream: Any, path: Path | Member, packed: int) -> None:
        self._stream, self._path, self._packed = stream, path, packed

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = int(self._stream.readinto(buffer))
        _check_bomb(self._path, self._stream.tell(), self._packed)
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position = int(self._stream.seek(offset, whence))
        _check_bomb(self._path, position, self._packed)
        return position

    def tell(self) -> int:
        return int(self._stream.tell())

    def close(self) -> None:
        self._stream.close()
        super().close()


def _check_bomb(path: Path | Member, unpacked: int, packed: int | None = None) -> None:
    if unpacked <= MOST_BYTES:
        return
    packed = cast(Path, path).stat().st_size if packed is None else packed
    if unpacked > MOST_RATIO * packed:
        raise GlassformerError(
            f"{path} has {readable_size(packed)} and unpacks to more than "
            f"{readable_size(unpacked)}, like a decompression bomb. If you trust it, unpack it and "
            "pass the files."
        )


def _name_in_zip(entry: zipfile.ZipInfo) -> str:
    """Its name. Info-ZIP on Linux writes UTF-8 without the flag for it, and zipfile then decodes
    the bytes as code page 437."""
    if entry.flag_bits & _UTF_8:
        return entry.filename
    try:
        return entry.filename.encode("cp437").decode()
    except UnicodeError:
        return entry.filename


def _safe(name: str) -> str | None:
    """The name of a member, unless it leads out of the archive or is one of Apple's."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    is_unsafe = any(part in ("..", "/") or "\0" in part for part in parts)
    return None if is_unsafe or _APPLE in parts else "/".join(parts) or None


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
