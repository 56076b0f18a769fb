"""One process at a time: a folder that is being written belongs to the process that writes it.

    runs/gpt-notes/         the run
    runs/.gpt-notes.lock    beside it, because the folder itself may be replaced

The operating system holds the lock and releases it when the process ends, however it ends: there is
no stale lock to clean up. The file says which process it is, for the message to others.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glassformer.atomic_files import explained
from glassformer.errors import GlassformerError

_LOCKED_AT = 2**30  # the byte that Windows locks: far behind the text, which others may read


@contextmanager
def locked(folder: Path, use: str = "trained") -> Iterator[None]:
    """Keep other processes from using `folder` while the block lasts; an error, which names the
    use, if one does already."""
    path = folder.with_name(f".{folder.name}.lock")
    missing = [parent for parent in folder.parents if not parent.exists()]
    with explained(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _acquired(path)
    if file is None:
        raise GlassformerError(
            f"{folder} is being {use} by {_holder(path)}. Wait until it has finished, stop it, "
            "or choose another --out."
        )
    try:
        about = {"process": os.getpid(), "machine": socket.gethostname()}
        os.ftruncate(file, 0)
        os.write(file, json.dumps(about).encode())
        yield
    finally:
        if os.name != "nt":
            path.unlink(missing_ok=True)  # before the release: then it is still ours
        os.close(file)
        with suppress(OSError):  # on Windows an open file cannot be deleted
            path.unlink(missing_ok=True)
        for parent in missing:
            with suppress(OSError):  # there is something in it
                parent.rmdir()


def _acquired(path: Path) -> int | None:
    """The locked file; None if another process has it."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if not _lock(file):
            os.close(file)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        os.close(file)  # its holder deleted it in the meantime: what we hold has no name


def _lock(file: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            os.lseek(file, _LOCKED_AT, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
            os.lseek(file, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks: as it was before there were any
        return True
    return True


def _holder(path: Path) -> str:
    try:
        about = json.loads(path.read_text())
        here = "" if about["machine"] == socket.gethostname() else f" on {about['machine']}"
        return f"process {about['process']}{here}"
    except (OSError, ValueError, KeyError, TypeError):  # it is just writing it
        return "another process"
