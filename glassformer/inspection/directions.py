"""The directions in which vectors differ most (PCA), and a map of the first two."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Values = NDArray[np.float64]


def main_directions(vectors: Floats) -> tuple[Values, float]:
    """The two directions (2, D) in which vectors (N, D) differ most, and their share of it all."""
    centred = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    _, scales, directions = np.linalg.svd(centred, full_matrices=False)
    missing = max(0, 2 - len(directions))
    total = float((scales**2).sum())
    share = float((scales[:2] ** 2).sum() / total) if total else 0.0
    return np.pad(directions[:2], [(0, missing), (0, 0)]), share


def map_of(vectors: Floats) -> tuple[Values, float]:
    """Vectors (…, D) on a map of these directions, (…, 2), and the share that it holds."""
    flat = vectors.reshape(-1, vectors.shape[-1]).astype(np.float64)
    directions, share = main_directions(flat)
    return ((flat - flat.mean(0)) @ directions.T).reshape(*vectors.shape[:-1], 2), share
