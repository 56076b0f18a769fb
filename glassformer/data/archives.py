"""Archives (.zip, .tar, .tar.gz …) as folders: nothing is unpacked to disk.

    Member(Path("deu.zip"), "")          the archive as a folder
    Member(Path("deu.zip"), "deu.txt")   a file in it, named deu.zip/deu.txt

A member offers what readers use of a `Path`. Names that lead out of the archive, links and devices
are not members. A compressed .tar can only be read forwards, so its members come in its own order,
and the last one is kept in memory unless it is large.
"""

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import weakref
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from glassformer.errors import GlassformerError
from glassformer.wording import cause, readable_size

COMPRESSIONS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_TARS = {".tgz": ".gz", ".tbz2": ".bz2", ".tbz": ".bz2", ".txz": ".xz"}
_ENDINGS = (".zip", ".tar", *_TARS, *(f".tar{suffix}" for suffix in COMPRESSIONS))
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
    """The name of the member, without a slash at either end; empty for the archive itself."""

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


DataPath = Path | Member  # of a file or folder, on disk or in an archive


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
    """The name of a member. Info-ZIP on Linux writes UTF-8 without the flag for it, and zipfile
    then decodes the bytes as code page 437."""
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
