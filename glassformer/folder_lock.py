"""One process at a time: a folder that is being written belongs to the process that writes it.

    runs/gpt-notes/         the run
    runs/.gpt-notes.lock    beside it, because the folder itself may be replaced

The operating system holds the lock and releases it when the process ends, however it ends: there is
no stale lock to clean up. The file says which process it is, for the message to others.
"""

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glassformer.atomic_files import explained
from glassformer.errors import GlassformerError

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
