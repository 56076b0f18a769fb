"""Handwritten digits as a folder of images: those that come with scikit-learn.

digits/train/7/0012.png   8 × 8 pixels, grey on black
digits/test/7/0430.png    every fifth of each digit
"""

from collections import Counter
from pathlib import Path

import numpy as np

from glassformer.data.written_images import write_png

BRIGHTEST = 16  # of the original values
EVERY = 5  # of each digit, one is for testing


def write_digits(folder: Path) -> str:
    """Write all digits. Returns what was written, in words."""
    from sklearn.datasets import load_digits

    found = load_digits()
    seen: Counter[int] = Counter()
    counts: Counter[str] = Counter()
    for number, (values, label) in enumerate(zip(found.images, found.target.tolist(), strict=True)):
        seen[label] += 1
        part = "train" if seen[label] % EVERY else "test"
        counts[part] += 1
        pixels = np.rint(values / BRIGHTEST * 255).astype(np.uint8)  # (8, 8)
        write_png(folder / part / str(label) / f"{number:04}.png", pixels)
    return f"{counts['train']:,} images of digits to train on, {counts['test']:,} to test on"
