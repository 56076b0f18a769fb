"""Files that tests write in order to read them."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np


def written(path: Path, content: str | bytes) -> str:
    """Write a file, gzipped if it ends in .gz, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def saved(path: Path, **arrays: Any) -> str:
    """Save arrays as .npz and return the path."""
    np.savez_compressed(path, **{name: np.asarray(array) for name, array in arrays.items()})
    return str(path)
