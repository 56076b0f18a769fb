"""All images of a run in one file: resized, 8 bits, memory-mapped when they are read.

    images.u8        N · H · W · C bytes
    images.json      the shape, and the size and time of every file that the images came from
    images.sources   where each image was read, one per line; beside the row of a table, its file

Files are read one after the other, because archives can only be read so, and decoded on a few
threads. In memory are only the images that are being decoded.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from glassformer.data.image_files import FoundImage
from glassformer.data.images import (
    MOST_PIXELS,
    Decoded,
    NotAnImageError,
    Pixels,
    Size,
    TooLargeImageError,
    decode_image,
    read_header,
    report_conversions,
    resized,
    with_channels,
)
from glassformer.data.rows import in_bounded_batches
from glassformer.data.text_files import report
from glassformer.errors import GlassformerError
from glassformer.files import read_json, write_json
from glassformer.machine.facts import usable_cpus
from glassformer.wording import cause, counted

IMAGES = "images"  # in the folder of a dataset
SAMPLE = 1024  # images whose size is looked at, at least half of them
MOST_THREADS = 4
_TOGETHER, _BYTES_TOGETHER = 32, 2**24  # images that a thread decodes at a time
_NAMED = 3  # files that are named in a note
Raw = bytes | Pixels | NotAnImageError  # the content of a file, or why it cannot be read


class Stored(NamedTuple):
    """An image that was written: its number in the store, where it came from, and a hash of its
    decoded pixels, before it was resized."""

    number: int
    image: FoundImage
    digest: bytes


class ImageStore:
    """Images of one size, by number."""

    def __init__(self, path: Path) -> None:
        """`path` has no ending."""
        self._path = path
        about = read_json(path.with_suffix(".json"))
        try:
            self.shape: tuple[int, int, int, int] = tuple(map(int, about["shape"]))  # type: ignore[assignment]
            self._files: dict[str, list[int]] = dict(about["files"])
            content = path.with_suffix(".u8")
            self._images = (
                np.memmap(content, np.uint8, "r", shape=self.shape)
                if self.shape[0]
                else np.zeros(self.shape, np.uint8)
            )
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise GlassformerError(
                f"{path.with_suffix('.u8')} cannot be read as images: {cause(error)}."
            ) from None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> Size:
        return self.shape[1], self.shape[2]

    @property
    def num_channels(self) -> int:
        return self.shape[3]

    def __getitem__(self, numbers: Any) -> Pixels:
        """(H, W, C) for a number, (B, H, W, C) for several."""
        return np.array(self._images[numbers])

    @cached_property
    def sources(self) -> list[str]:
        """The file, or the table and line, that each image was read from."""
        return [source for source, _ in self._places]

    def file(self, number: int) -> str:
        """The path of an image, which may lead into an archive; if it has none, where it was
        read."""
        return self._places[number][1]

    @cached_property
    def _places(self) -> list[tuple[str, str]]:
        text = self._path.with_suffix(".sources").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.split("\n") if line]
        pairs = (line if isinstance(line, list) else (line, line) for line in lines)
        return [(str(source), str(file)) for source, file in pairs]

    def changed(self) -> list[str]:
        """The files that are no longer as they were when the images were read. Those of a machine
        that has none of them do not count."""
        states = {name: _state(Path(name)) for name in self._files}
        if not any(states.values()):
            return []
        return [name for name, state in states.items() if state != tuple(self._files[name])]


def changes_in(folder: Path) -> list[str]:
    """What changed in the files of the images of a dataset since they were read, in words."""
    if not (folder / IMAGES).with_suffix(".json").is_file():
        return []
    changed = ImageStore(folder / IMAGES).changed()
    if not changed:
        return []
    more = f" and {len(changed) - _NAMED:,} more" if len(changed) > _NAMED else ""
    return [
        f"note: {counted(len(changed), 'file')} changed or disappeared since the run began: "
        f"{', '.join(changed[:_NAMED])}{more}. Training continues with the images as they were"
    ]


class ImageStoreWriter:
    """Writes images one by one; `with` writes the rest."""

    def __init__(self, path: Path, size: Size, num_channels: int) -> None:
        self.path, self.size, self.num_channels = path, size, num_channels
        self._number = 0
        self._files: dict[str, list[int]] = {}

    def __enter__(self) -> Self:
        self._images = self.path.with_suffix(".u8").open("wb", buffering=2**20)
        self._sources = self.path.with_suffix(".sources").open("w", encoding="utf-8", newline="\n")
        return self

    def __exit__(self, *error: object) -> None:
        self._images.close()
        self._sources.close()
        if error[0] is None:
            shape = [self._number, *self.size, self.num_channels]
            write_json(self.path.with_suffix(".json"), {"shape": shape, "files": self._files})

    def add(self, images: Iterable[FoundImage], strict: bool | None = None) -> Iterator[Stored]:
        """Decode, resize and append images. Files that are not images are skipped, or (strict)
        raise an error. None: they are skipped, and the user has no option to refuse them."""
        skipped: dict[bool, list[str]] = {}  # by whether they are too large
        for image, result in _decoded(images, self.size, self.num_channels):
            if isinstance(result, NotAnImageError):
                if strict:
                    raise GlassformerError(
                        f"{_at(image, result)} Remove it, or leave out --strict."
                    )
                is_large = isinstance(result, TooLargeImageError)
                skipped.setdefault(is_large, []).append(image.source)
                continue
            decoded, digest = result
            report_conversions(image.source, decoded)
            yield self._append(image, decoded.pixels, digest)
        for is_large, names in skipped.items():
            more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
            what = "file that is not an image" if len(names) == 1 else "files that are not images"
            if is_large:
                noun = "image" if len(names) == 1 else "images"
                what = f"{noun} of more than {MOST_PIXELS // 10**6} megapixels"
            cure = "" if strict is None else ". Pass --strict to refuse such files"
            report().remark(
                f"skipped {len(names):,} {what}: {', '.join(names[:_NAMED])}{more}{cure}"
            )

    def _append(self, image: FoundImage, pixels: Pixels, digest: bytes) -> Stored:
        self._images.write(pixels.tobytes())
        source = image.source if image.identity == image.source else [image.source, image.identity]
        self._sources.write(json.dumps(source, ensure_ascii=False) + "\n")
        name = "" if image.file is None else str(image.file.absolute())
        if image.file is not None and name not in self._files:
            self._files[name] = list(_state(image.file) or ())
        self._number += 1
        return Stored(self._number - 1, image, digest)


def headers(images: Iterable[FoundImage]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(N, 2) heights and widths, and (N,) channels, of an even sample of the images."""
    shapes: list[tuple[int, int, int]] = []
    every = 1
    for index, image in enumerate(images):
        if index % every:
            continue
        with suppress(NotAnImageError):
            raw = image.raw()
            if isinstance(raw, np.ndarray):
                shapes.append(raw.shape)
            else:
                header = read_header(raw, image.source)
                shapes.append((*header.size, header.num_channels))
        if len(shapes) == SAMPLE:
            shapes, every = shapes[::2], every * 2
    if not shapes:
        raise GlassformerError("none of the files is an image.")
    sizes = np.array(shapes, dtype=np.int64)
    return sizes[:, :2], sizes[:, 2]


def write_npz(path: Path, images: Iterable[Pixels], labels: Sequence[str]) -> None:
    """Images of one size, with their labels, as arrays that can be read like a user's."""
    first = next(iterator := iter(images))
    pixels = np.lib.format.open_memmap(
        partial := path.with_suffix(".npy"), "w+", np.uint8, (len(labels), *first.shape)
    )
    for number, image in enumerate(chain([first], iterator)):
        pixels[number] = image
    np.savez(path, images=pixels, labels=np.array(labels))
    del pixels
    partial.unlink()


# --- decoding ---


def _decoded(
    images: Iterable[FoundImage], size: Size, channels: int
) -> Iterator[tuple[FoundImage, tuple[Decoded, bytes] | NotAnImageError]]:
    """Each image, resized, with the hash of its pixels; in order."""
    threads = max(1, min(MOST_THREADS, len(usable_cpus())))
    waiting: list[tuple[list[FoundImage], Future[list[Any]]]] = []
    with ThreadPoolExecutor(threads) as pool:
        try:
            raw = ((image, _raw(image)) for image in images)
            for batch in in_bounded_batches(raw, _num_bytes, _TOGETHER, _BYTES_TOGETHER):
                future = pool.submit(_decode_all, batch, size, channels)
                waiting.append(([image for image, _ in batch], future))
                if len(waiting) > threads:
                    done, results = waiting.pop(0)
                    yield from zip(done, results.result(), strict=True)
            for done, results in waiting:
                yield from zip(done, results.result(), strict=True)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _raw(image: FoundImage) -> Raw:
    try:
        return image.raw()
    except NotAnImageError as error:
        return error


def _num_bytes(item: tuple[FoundImage, Raw]) -> int:
    return 0 if isinstance(item[1], NotAnImageError) else len(item[1])


def _decode_all(
    batch: Sequence[tuple[FoundImage, Raw]], size: Size, channels: int
) -> list[tuple[Decoded, bytes] | NotAnImageError]:
    results: list[tuple[Decoded, bytes] | NotAnImageError] = []
    for image, raw in batch:
        try:
            if isinstance(raw, NotAnImageError):
                raise raw
            if isinstance(raw, np.ndarray):
                decoded = with_channels(raw, channels)
            else:
                decoded = decode_image(raw, image.source, channels)
        except NotAnImageError as error:
            results.append(error)
        else:
            small = Decoded(resized(decoded.pixels, size), decoded.conversions)
            results.append((small, pixel_hash(decoded.pixels)))
    return results


def pixel_hash(pixels: Pixels) -> bytes:
    """128 bits that are equal for equal images."""
    digest = hashlib.blake2b(str(pixels.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.digest()


def _at(image: FoundImage, error: Exception) -> str:
    """An error that names its place: the file itself, or the row of a table."""
    text = str(error)
    return text if text.startswith(image.source) else f"{image.source}: {text}"


def _state(path: Path) -> tuple[int, int] | None:
    """The size and time of a file; None if there is none."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns
