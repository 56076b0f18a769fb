"""Let the disk fail at the k-th time that a training changes it, for every k: full, broken, or the
power gone. The error must be reported, and the run must still continue to the same bytes.
(TensorBoard's own files are left out: the run does not depend on them.)

    python -m proofs.faults          every k of a whole run
    python -m proofs.faults 10       every tenth
"""

import errno
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from glassformer.errors import GlassformerError
from glassformer.training.run import fit
from glassformer.training.run_folder import RunFolder
from proofs.runs import begun, copied, finished, in_child, small_recipe

TOUCHES: tuple[tuple[Any, str], ...] = (
    *((Path, name) for name in ("write_bytes", "write_text", "open", "mkdir", "unlink")),
    *((Path, name) for name in ("rename", "replace")),
    *((os, "fsync"), (shutil, "rmtree")),
)
REPORTED = 7  # the exit code of a child that reported what is wrong
POWER_GONE = "power"
FAULTS: tuple[Any, ...] = (errno.ENOSPC, errno.EIO, POWER_GONE)


class PowerGone(BaseException):
    pass


@contextmanager
def watched(happens: Callable[[int], None]) -> Iterator[list[int]]:
    """Call `happens(k)` at the k-th touch of the disk. Of a file's content, half is written; of a
    folder that was to be deleted, one file is left."""
    count = [0]
    kept = [(owner, name, getattr(owner, name)) for owner, name in TOUCHES]

    def wrapped(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def touch(*args: Any, **kwargs: Any) -> Any:
            if name == "open" and not set("wax+") & set(kwargs.get("mode", "".join(args[1:2]))):
                return original(*args, **kwargs)  # to read
            count[0] += 1
            try:
                happens(count[0])
            except (OSError, PowerGone) as fault:
                if name in ("write_bytes", "write_text"):
                    original(args[0], args[1][: len(args[1]) // 2])
                if name == "rmtree" and Path(args[0]).is_dir():
                    for file in sorted(Path(args[0]).iterdir())[1:]:
                        os.remove(file)  # noqa: PTH107 (Path's own is watched)
                if isinstance(fault, PowerGone):
                    os._exit(REPORTED)  # nothing runs any more, not even the tidying up
                raise
            return original(*args, **kwargs)

        return touch

    for owner, name, original in kept:
        setattr(owner, name, wrapped(name, original))
    try:
        yield count
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)


def strike(run: RunFolder, k: int, fault: Any) -> int:
    """Train in a child that meets `fault` at its k-th touch of the disk."""

    def happens(now: int) -> None:
        if now == k and fault == POWER_GONE:
            raise PowerGone
        if now == k:
            raise OSError(fault, os.strerror(fault))

    def work() -> None:
        with watched(happens):
            try:
                fit(run, io.StringIO())
            except (GlassformerError, OSError) as error:
                sys.exit(REPORTED if str(error).strip() else 1)

    return in_child(work)


def touches(run: RunFolder) -> int:
    """How often a whole training touches the disk."""
    note = run.path.with_name("touches")

    def work() -> None:
        with watched(lambda k: None) as count:
            fit(run, io.StringIO())
        note.write_text(str(count[0]))

    in_child(work)
    return int(note.read_text())


def prove(every: int = 1) -> str:
    with TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        recipe = small_recipe(folder, max_steps=3, save_steps=2, eval_steps=2, logging_steps=2)
        fresh = begun(recipe, folder / "fresh")
        expected = finished(copied(fresh, folder / "straight"))
        number = touches(copied(fresh, folder / "counted"))
        for k in range(1, number + 1, every):
            for fault in FAULTS:
                run = copied(fresh, folder / "struck")
                code = strike(run, k, fault)
                if code not in (0, REPORTED):  # 0: it was only tidying up, and can do without
                    raise SystemExit(f"touch {k}, {fault}: ended with {code}")
                if finished(run) != expected:
                    raise SystemExit(f"touch {k}, {fault}: the resumed run differs")
    faults = len(range(1, number + 1, every)) * len(FAULTS)
    return (
        f"{faults} faults at {number} touches of the disk: reported, and resumed to the same bytes"
    )


if __name__ == "__main__":
    print(prove(*map(int, sys.argv[1:])))
