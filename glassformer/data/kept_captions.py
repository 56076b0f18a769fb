"""Captioned images, kept in a run: the pixels are in its store, the rest is a line of JSON each.

So a training that continues elsewhere, or after the files have changed, is evaluated on the data it
began with.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from glassformer.data.captioned_images import CaptionedImage
from glassformer.data.image_store import ImageStore


def keep_images(path: Path, images: Iterable[CaptionedImage]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for each in images:
            row = {"number": each.number, "captions": each.captions, "source": each.source}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def kept_images(path: Path, store: ImageStore) -> list[CaptionedImage]:
    """What `keep_images` wrote, about images in `store`."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line)
    return [
        CaptionedImage(row["number"], tuple(row["captions"]), row["source"], b"", store)
        for row in rows
    ]
