"""What the probe found, remembered: one small JSON file per kind of machine.

The file is named after everything that could change the answer, so a new torch, another GPU or
another ONEDNN_MAX_CPU_ISA finds no file and measures again. The cache is a convenience: a damaged
file is measured over, and a folder that cannot be written is done without.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from glassformer.atomic_files import write_json
from glassformer.errors import GlassformerError
from glassformer.runtime.precision import PRECISIONS, Measurement, Measurements


@dataclass(frozen=True)
class Fingerprint:
    """Everything that the probe's answer depends on."""

    device: str
    device_name: str
    cpu: str
    cpu_flags: str
    cores_logical: int
    thread_counts: tuple[int, ...]
    widths: tuple[int, ...]
    torch: str
    onednn_max_cpu_isa: str
    kernel: str = ""


def cache_dir() -> Path | None:
    """GLASSFORMER_CACHE, or glassformer/ in the XDG cache; None for a user without a home."""
    own = os.environ.get("GLASSFORMER_CACHE")
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    with contextlib.suppress(RuntimeError):
        # The XDG specification says to ignore a relative path.
        base = Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache"
        return base / "glassformer"
    return None


def recall(fingerprint: Fingerprint, names: Collection[str] = PRECISIONS) -> Measurements | None:
    """What was measured before, if it is there and whole: a measurement for each of `names`."""
    folder = cache_dir()
    if folder is None:
        return None
    try:
        stored = json.loads(_file(folder, fingerprint).read_bytes())["measurements"]
        measured = TypeAdapter(dict[str, Measurement]).validate_python(stored)
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None
    return measured if measured.keys() == set(names) else None


def remember(fingerprint: Fingerprint, measured: Measurements) -> None:
    """A reader sees the old file or the new one, never half of one."""
    folder = cache_dir()
    if folder is None:
        return
    content = {
        "fingerprint": asdict(fingerprint),
        "measurements": {name: asdict(measurement) for name, measurement in measured.items()},
    }
    with contextlib.suppress(GlassformerError):
        write_json(_file(folder, fingerprint), content)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Ranks of one node take turns: the first measures an idle machine, the others read its file.

    Without it, ranks that disturb each other's measurements could choose different precisions.
    """
    from filelock import FileLock

    folder = cache_dir()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # no such locks here: measure unlocked
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(FileLock(folder / "probe.lock", fallback_to_soft=False))
        yield


def _file(folder: Path, fingerprint: Fingerprint) -> Path:
    digest = hashlib.sha256(json.dumps(asdict(fingerprint)).encode()).hexdigest()[:16]
    return folder / f"probe-{digest}.json"
