"""Files and folders that appear whole or not at all, and the lock of a folder in use.

A file is written beside its place under a hidden name, flushed to disk, and renamed: at any moment,
even when the power fails, there is either the old one or the new one. A folder has a manifest with
the size and SHA-256 of each of its files, by which later damage is detected.
"""

import errno
import hashlib
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import cause, joined

MANIFEST = "manifest.json"
CURES = {
    errno.ENOSPC: " Free some space and run the command again (a training run with --resume).",
    errno.EDQUOT: " Free some space and run the command again (a training run with --resume).",
    errno.EROFS: " Choose another --out, or make it writable.",
    errno.EACCES: " Choose another --out, or make it writable.",
}


def check_ending(path: Path, endings: Sequence[str] = (".html", ".png", ".svg", ".json")) -> str:
    """The ending of a file, in small letters; an error if it is none of these. Called before any
    work is done."""
    if (ending := path.suffix.lower()) not in endings:
        raise UsageError(f"{path}: the name must end in {joined(endings, 'or')}.")
    return ending


def write_file(path: Path, content: bytes | str) -> None:
    """Replace `path` by a file with this content."""
    with new_file(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Replace `path` by a file with one JSON object, for people to read."""
    write_file(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def write_json_line(path: Path, values: dict[str, Any]) -> None:
    """Replace `path` by a file with one JSON object on a line, for programs to read."""
    write_file(path, json_line(values))


def json_line(values: dict[str, Any]) -> bytes:
    """One JSON object on a line."""
    text = json.dumps(values, ensure_ascii=False) + "\n"
    return text.encode(errors="backslashreplace")  # half a character, as JSON writes it


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file of a model folder."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise GlassformerError(f"{path} does not exist. Copy the whole model folder.") from None
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
    except (ValueError, RecursionError) as error:
        raise GlassformerError(f"{path} is damaged: {cause(error)}. Copy it again.") from None
    if not isinstance(values, dict):
        raise GlassformerError(f"{path} is damaged: it is not a JSON object. Copy it again.")
    return values


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A file to write, which is moved to `path` when the block ends without an error."""
    partial = path.with_name(f".{path.name}.partial")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            sync(partial)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        sync(path.parent)


@contextmanager
def new_folder(path: Path, has_own_manifest: bool = False) -> Iterator[Path]:
    """A folder to fill, which is moved to `path` when the block ends without an error. Unless the
    block writes a manifest that says more, it gets the usual one."""
    partial = path.with_name(f".{path.name}.partial")
    with explained(path):
        discard(partial)
        partial.mkdir(parents=True)
        try:
            yield partial
            if not has_own_manifest:
                (partial / MANIFEST).write_text(json.dumps(_manifest(partial), indent=1))
            for file in partial.iterdir():
                sync(file)
            sync(partial)
            take_place(partial, path)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        sync(path.parent)


def check_folder(path: Path, cure: str = "") -> None:
    """Raise, with advice, unless the folder contains exactly what its manifest lists."""
    try:
        saved, now = json.loads((path / MANIFEST).read_text()), _manifest(path)
        damaged = [name for name in saved | now if saved.get(name) != now.get(name)]
    except PermissionError as error:
        raise GlassformerError(f"{error.filename} cannot be read: {cause(error)}.") from None
    except FileNotFoundError as error:
        name = Path(error.filename).name
        problem = (
            f"{path} is damaged: {name} is missing." if path.exists() else f"{path} is missing."
        )
        raise GlassformerError(f"{problem} {cure}".rstrip()) from None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        where = getattr(error, "filename", None) or path / MANIFEST
        raise GlassformerError(f"{where} is damaged: {cause(error)}. {cure}".rstrip()) from None
    if damaged:
        problem = f"{path / damaged[0]} is damaged: it differs from what was saved."
        raise GlassformerError(f"{problem} {cure}".rstrip())


@contextmanager
def damage(path: Path, cure: str = "") -> Iterator[None]:
    """Turn an error about the content of `path` into one that names it and gives advice."""
    try:
        yield
    except GlassformerError as error:
        raise GlassformerError(f"{path} is damaged: its {cause(error)}. {cure}".rstrip()) from None


def files_beside_manifest(path: Path) -> list[str]:
    """The names of the files in a folder that its manifest does not list."""
    if not path.is_dir():
        return []
    return sorted({entry.name for entry in path.iterdir()} - {*read_manifest(path), MANIFEST})


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a folder; empty if there is none, or if it is damaged."""
    try:
        values = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def discard(path: Path) -> None:
    """Delete a folder, a file or a link that an earlier write may have left."""
    if path.is_symlink() or path.is_file():
        with suppress(OSError):
            path.unlink()
    shutil.rmtree(path, ignore_errors=True)


def take_place(partial: Path, path: Path) -> None:
    """Rename. A folder that already exists there is deleted only after the new one is in place."""
    old = path.with_name(f".{path.name}.old")
    discard(old)
    if path.exists():
        path.rename(old)
    try:
        partial.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _manifest(folder: Path) -> dict[str, Any]:
    return {
        file.name: {"bytes": file.stat().st_size, "sha256": file_digest(file)}
        for file in sorted(folder.iterdir())
        if file.name != MANIFEST and not file.name.startswith(".")
    }


def file_digest(file: Path) -> str:
    """SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until the file's or folder's content has reached the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot flush a folder, and does not need to
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # there, fsync does not reach the disk
        else:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn a failed write into an error that names `path`."""
    try:
        yield
    except OSError as error:
        reason, cure = cause(error), CURES.get(error.errno or 0, "")
        raise GlassformerError(f"{path} cannot be written: {reason}.{cure}") from error


# --- one process at a time ---
# A folder that is being written belongs to the process that writes it.
#
#     runs/gpt-notes/         the run
#     runs/.gpt-notes.lock    beside it, because the folder itself may be replaced
#
# The operating system holds the lock and releases it when the process ends, however it ends: there
# is no stale lock to clean up. The file says which process it is, for the message to others.

# Seconds. One attempt can fail without a holder: the last one is deleting the file just then.
PATIENCE = 0.2
# What file systems without locks answer. There, folders are used as if there were none.
WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextmanager
def locked(folder: Path, use: str = "trained") -> Iterator[None]:
    """Keep other processes from using `folder` while the block lasts; an error, which names the
    use, if one does already."""
    from filelock import FileLock, Timeout  # late: help does not need it

    path = folder.with_name(f".{folder.name}.lock")
    missing = [parent for parent in folder.parents if not parent.exists()]
    lock = FileLock(path, timeout=PATIENCE, on_acquired=_sign)
    with explained(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            raise GlassformerError(
                f"{folder} is being {use} by {_holder(path)}. Wait until it has finished, stop it, "
                "or choose another --out."
            ) from None
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
    try:
        yield
    finally:
        if os.name != "nt":  # on Windows an open file cannot be deleted: filelock does it later
            path.unlink(missing_ok=True)  # before the release: then it is still ours
        lock.release()
        for parent in missing:
            with suppress(OSError):  # there is something in it
                parent.rmdir()


def _sign(file: int) -> None:
    """Write who holds the lock, behind the first byte: Windows lets nobody else read that one."""
    about = {"process": os.getpid(), "machine": socket.gethostname()}
    os.ftruncate(file, 0)
    os.write(file, f"\n{json.dumps(about)}".encode())


def _holder(path: Path) -> str:
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(1)
            about = json.loads(file.read())
        here = "" if about["machine"] == socket.gethostname() else f" on {about['machine']}"
        return f"process {about['process']}{here}"
    except (OSError, ValueError, KeyError, TypeError):  # it is just writing it
        return "another process"
