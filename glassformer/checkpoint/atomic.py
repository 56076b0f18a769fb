"""A file or a folder appears whole or not at all.

It is written beside its place under a hidden name, flushed to the disk, and renamed: whoever looks,
at whatever moment the power fails, finds the old one or the new one. A folder carries a manifest of
the size and SHA-256 of each of its files, so that later damage is found before it is believed.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.errors import GlassformerError

MANIFEST = "manifest.json"
CURES = {
    errno.ENOSPC: " Make room there; a training then goes on with --resume.",
    errno.EDQUOT: " Make room there; a training then goes on with --resume.",
    errno.EROFS: " Say another --out, or make it writable.",
    errno.EACCES: " Say another --out, or make it writable.",
}


def write_file(path: Path, content: bytes | str) -> None:
    """Replace `path` by a file with this content."""
    with new_file(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A file to write; it takes its place at `path` when the block ends without an error."""
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
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it takes its place at `path` when the block ends without an error."""
    partial = path.with_name(f".{path.name}.partial")
    with explained(path):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            yield partial
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
    """Raise, with advice, unless the folder holds what its manifest says, and nothing else."""
    try:
        saved, found = json.loads((path / MANIFEST).read_text()), _manifest(path)
        damaged = [name for name in saved | found if saved.get(name) != found.get(name)]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise GlassformerError(f"{path} is damaged: {error}. {cure}".rstrip()) from None
    if damaged:
        what = f"{path / damaged[0]} is damaged: not what was saved."
        raise GlassformerError(f"{what} {cure}".rstrip())


def take_place(partial: Path, path: Path) -> None:
    """Rename; a folder that is there already goes only when the new one stands."""
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
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
    files = (file for file in sorted(folder.iterdir()) if not file.name.startswith("."))
    return {
        file.name: {"bytes": file.stat().st_size, "sha256": file_digest(file)}
        for file in files
        if file.name != MANIFEST
    }


def file_digest(file: Path) -> str:
    """SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Wait until the file's or folder's content has reached the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot flush a folder, and needs no such thing
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() or os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """What the system says of a failed write, as a sentence that names `path`."""
    try:
        yield
    except OSError as error:
        reason, cure = error.strerror or str(error), CURES.get(error.errno or 0, "")
        raise GlassformerError(f"{path} cannot be written: {reason}.{cure}") from error
