"""Where images are: in folders, archives, tables, .npz files and datasets on the hub.

    images/cat/7.png                  →  FoundImage("images/cat/7.png", labels=("cat",))
    pets.csv: image,label             →  FoundImage("pets.csv:2", labels=("cat",))
    pets.npz: images, labels          →  FoundImage("pets.npz:1", labels=("cat",))

Images are found one by one, and read when they are asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from glassformer.config import ImageSize
from glassformer.data import tables, text_files
from glassformer.data.archives import DataPath, Member, ending, local_path
from glassformer.data.documents import LabelledConfig
from glassformer.data.folders import (
    every_file,
    has_folders,
    is_group,
    is_pattern,
    labels_of_files,
    visible_entries,
)
from glassformer.data.images import ENDINGS, Pixels, read_image_bytes
from glassformer.data.labels import LABEL_COLUMNS, label_name, one_name
from glassformer.data.tables import TABLE_ENDINGS, Row, Table
from glassformer.data.text_files import EmptyError, report
from glassformer.data.time_series import read_arrays
from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import counted

IMAGE_COLUMNS = (
    "image", "file_name", "filename", "file", "path", "image_path", "img", "picture", "photo",
    "filepath", "file_path", "image_file",
)  # fmt: skip
IMAGE_FOLDERS = ("images", "Images")
CAPTION_COLUMNS = ("caption", "captions", "text", "description", "sentence", "title")
PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"}
Role = Literal["label", "caption"]
Values = npt.NDArray[Any]


class ImagesConfig(LabelledConfig):
    """Which images to train on, and how they are read."""

    image_column: str | None = None
    """The column of a table with the images or their paths (null: detected by name)."""
    image_size: ImageSize | None = None
    """Height and width to which images are resized (null: chosen from the data)."""
    num_channels: Literal[1, 3] | None = None
    """1: greyscale, 3: colour (null: colour, unless all images are grey)."""
    strict: bool = False
    """Refuse files that are not images instead of skipping them."""


class CaptionsConfig(ImagesConfig):
    """Which images with captions to train on."""

    caption_column: str | None = None
    """The column of the captions (null: detected by name)."""


@dataclass(frozen=True, slots=True)
class FoundImage:
    """An image that has not been read yet."""

    source: str
    """The file of the image, or "table:line"."""
    image: "DataPath | bytes | Pixels"
    """The path of the image, the content of its file, or its pixels."""
    file: Path | None
    """The file on disk that contains it; None for the hub."""
    labels: tuple[str, ...] = ()
    captions: list[str] = field(default_factory=list)
    """All captions of the image, complete when all rows have been read."""

    def raw(self) -> bytes | Pixels:
        """The content of its file, or its pixels."""
        if isinstance(self.image, bytes | np.ndarray):
            return self.image
        return read_image_bytes(self.image)

    @property
    def identity(self) -> str:
        """Equal for two rows that name the same file."""
        return self.source if isinstance(self.image, bytes | np.ndarray) else str(self.image)


@dataclass
class ImageFinder:
    """Finds the images of files, folders and datasets, with what is said about them."""

    role: Role | None = None
    """What each image needs, a label or a caption; None: nothing."""
    image_column: str | None = None
    other_column: str | None = None
    """The column of the label or the caption."""
    encoding: str = "utf-8"
    columns: tuple[str, str | None] | None = None
    """The columns of the first table that was read: of the images, and of what belongs to them."""
    words: str | None = None
    """A description of how these columns are used."""

    def find(self, paths: Sequence[str]) -> Iterator[FoundImage]:
        """All images, in a fixed order. One with captions comes once, when the first is read; those
        of later rows are added to it."""
        is_empty = True
        captions: dict[str, list[str]] = {}
        folders = self._folders_of_labels(paths)
        for name in paths:
            with text_files.reading(name):
                images = _of_class(folders[name]) if folders else self._find(name)
                for image in images:
                    is_empty = False
                    if self.role != "caption":
                        yield image
                        continue
                    earlier = captions.setdefault(image.identity, image.captions)
                    if earlier is image.captions:
                        yield image
                    else:
                        earlier += [text for text in image.captions if text not in earlier]
        if is_empty:
            raise EmptyError(f"{', '.join(paths)} contains no images.")

    def _folders_of_labels(self, paths: Sequence[str]) -> dict[str, DataPath]:
        """Several folders, as a shell expands `images/*`: each is a label. Else none."""
        if self.role != "label" or len(paths) < 2 or any(map(is_pattern, paths)):
            return {}
        folders = {name: local_path(name) for name in paths}
        flat = all(path.is_dir() and not has_folders(path) for path in folders.values())
        return folders if flat else {}

    def _find(self, name: str) -> Iterator[FoundImage]:
        path = local_path(name)
        if is_group(name):
            yield from self._of_group(name)
        elif ending(path) == ".npz" and isinstance(path, Path) and path.is_file():
            yield from self._of_arrays(path)
        elif path.is_file() and not tables.is_table(path, self.encoding):
            if self.role is not None:
                raise UsageError(
                    f"{path} has no {self.role}. Pass a folder for each class, or a table "
                    f"({', '.join(TABLE_ENDINGS)}) with the columns image and {self.role}."
                )
            yield _of_file(path)
        else:
            yield from self._of_table(name)

    # --- folders ---

    def _of_group(self, name: str) -> Iterator[FoundImage]:
        _check_parts(name, self.role)
        files = list(every_file(name))
        table_files = [file for file in files if ending(file) in TABLE_ENDINGS]
        labels = labels_of_files(name, files) if self.role == "label" else {}
        top = [file for file in table_files if file not in labels]
        labelled = labels if self.role == "label" else files
        has_images = any(file.suffix.lower() in ENDINGS for file in labelled)
        is_described = self.role == "label" and any(file.stem == "metadata" for file in top)
        if self.role == "caption" or is_described or (top and not has_images):
            if not table_files:
                raise GlassformerError(
                    f"{name} contains no table of images and {self.role}s. Add metadata.csv with "
                    f"the columns file_name and {self.role}."
                )
            for file in table_files:
                yield from self._of_table(str(file))
            return
        if self.role == "label":
            if not labels:
                raise GlassformerError(
                    f"{name} contains neither a folder for each class nor a table "
                    f"({', '.join(TABLE_ENDINGS)}). Add, for example, {name}/cat and {name}/dog."
                )
            _remark_on_depth(name, files, labels)
            files = list(labels)
        for file in files:
            yield _of_file(file, (one_name(labels[file]),) if file in labels else ())

    # --- tables ---

    def _of_table(self, name: str) -> Iterator[FoundImage]:
        table = tables.open_table(name, self.encoding)
        image, other = self._columns(table)
        if self.columns is None:
            self.columns = image, other
            roles: dict[str, Sequence[str]] = {"image": [image]}
            self.words = tables.columns_in_words(
                table, roles | ({str(self.role): [other]} if other is not None else {})
            )
        folder, file = local_path(name).parent, _on_disk(local_path(name))
        for row in table.rows:
            content = _image_of(row, image, folder)
            image_file = file if isinstance(content, bytes) else _on_disk(content)
            yield FoundImage(row.place, content, image_file, **self._labels_or_captions(row, other))

    def _columns(self, table: Table) -> tuple[str, str | None]:
        image = tables.column(table, self.image_column, IMAGE_COLUMNS, "image")
        if self.role is None:
            return image, None
        usual = LABEL_COLUMNS if self.role == "label" else CAPTION_COLUMNS
        rest = [name for name in table.columns if name != image]
        if self.other_column is None and len(rest) == 1:
            return image, rest[0]
        other = tables.column(table, self.other_column, usual, self.role, used=[image])
        if other == image:
            raise tables.used_twice(table, image, "image", self.role)
        return image, other

    def _labels_or_captions(self, row: Row, other: str | None) -> dict[str, Any]:
        if other is None:
            return {}
        value = row.get(other)
        if self.role == "label":
            return {"labels": (label_name(value, row.place, f'column "{other}"'),)}
        if not isinstance(value, str) or not value.strip():
            raise GlassformerError(
                f'{row.place}: no caption in column "{other}". Fill it in, or delete the row.'
            )
        return {"captions": [" ".join(value.split())]}

    # --- arrays ---

    def _of_arrays(self, path: Path) -> Iterator[FoundImage]:
        if self.role == "caption":
            raise UsageError(f"{path} cannot contain captions. Pass a table of image and caption.")
        needed = ("images", "labels") if self.role == "label" else ("images",)
        arrays = read_arrays(path, needed)
        images, labels = arrays["images"], arrays.get("labels")
        if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
            raise GlassformerError(
                f"{path}: array images has shape {images.shape}; expected (N, H, W), (N, H, W, 1) "
                "or (N, H, W, 3)."
            )
        if labels is not None and labels.shape != (len(images),):
            raise GlassformerError(
                f"{path}: array labels has shape {labels.shape}; expected one label for each image,"
                f" shape ({len(images)},)."
            )
        scale = _scale_of(path, images)
        names = [None] * len(images) if labels is None else labels.tolist()
        for index, label in enumerate(names):
            place = f"{path}:{index + 1}"
            image = images[index] if images.ndim == 4 else images[index][:, :, None]  # (H, W, C)
            name = () if label is None else (label_name(label, place, 'array "labels"'),)
            yield FoundImage(place, scale(image), path, name)


def find_images(
    config: ImagesConfig, role: Role | None = None
) -> tuple[ImageFinder, list[Callable[[], Iterable[FoundImage]]]]:
    """The images to train, validate and test on: three functions that find them, anew each time."""
    column_of_role = None if role is None else getattr(config, f"{role}_column")
    finder = ImageFinder(role, config.image_column, column_of_role, config.encoding)

    def finding(paths: Sequence[str]) -> Callable[[], Iterable[FoundImage]]:
        return lambda: finder.find(paths) if paths else ()

    return finder, [finding(paths) for paths in config.parts]


def _image_of(row: Row, name: str, folder: DataPath) -> DataPath | bytes:
    """The image of a row: its path, relative to the table's folder, or its bytes."""
    value = row.get(name)
    if isinstance(value, dict):  # how Arrow stores images
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes) and value:
        return value
    if not isinstance(value, str) or not value.strip():
        raise GlassformerError(
            f'{row.place}: no image in column "{name}". Fill it in, or delete the row.'
        )
    written = value.strip()
    path = local_path(written) if Path(written).is_absolute() else local_path(f"{folder}/{written}")
    if not path.is_file():
        for name in IMAGE_FOLDERS:  # a table of bare names beside the folder of the images
            if (inside := local_path(f"{folder}/{name}/{written}")).is_file():
                return inside
        cure = "Correct the path, which is relative to the table's folder."
        raise GlassformerError(f"{row.place}: {text_files.missing(path, cure)}")
    return path


def _of_class(folder: DataPath) -> Iterator[FoundImage]:
    return (_of_file(file, (one_name(folder.name),)) for file in visible_entries(folder))


def _of_file(file: DataPath, labels: tuple[str, ...] = ()) -> FoundImage:
    return FoundImage(str(file), file, _on_disk(file), labels)


def _on_disk(path: DataPath) -> Path | None:
    file = path.archive if isinstance(path, Member) else path
    return file if file.is_file() else None


def _remark_on_depth(name: str, files: Sequence[DataPath], labels: Mapping[DataPath, str]) -> None:
    """Which files are outside the folders of classes, and which are deeper inside."""
    if rest := [file for file in files if file not in labels]:
        report().remark(
            f"left out: {counted(len(rest), 'file')} in {name} not in the folder of a class "
            f"(first: {rest[0]})"
        )
    if deep := [file for file, label in labels.items() if file.parent.name != label]:
        report().remark(
            f"{counted(len(deep), 'file')} in subfolders: the label is the outermost folder "
            f"(first: {deep[0]}, label {labels[deep[0]]})"
        )


def _check_parts(name: str, role: Role | None) -> None:
    """Folders called train and test are parts of a dataset, not classes."""
    if is_pattern(name) or role == "caption":
        return
    folders = sorted(entry.name for entry in visible_entries(local_path(name)) if entry.is_dir())
    parts = [folder for folder in folders if folder.casefold() in PARTS]
    if len(parts) > 1 and parts == folders:
        train = next((folder for folder in parts if "train" in folder.casefold()), parts[0])
        test = next((folder for folder in parts if "test" in folder.casefold()), None)
        more = "" if test is None else f" --test-data {name}/{test}"
        raise UsageError(
            f"{name} contains the folders {' and '.join(parts)}, the parts of a dataset. Pass "
            f"--data {name}/{train}{more}."
        )


def _scale_of(path: Path, images: Values) -> Callable[[Values], Pixels]:
    """How the numbers of an array become 8 bits."""
    if images.dtype == np.uint8:
        return lambda image: image
    if images.dtype.kind not in "biuf" or not images.size:
        raise GlassformerError(
            f"{path}: array images has shape {images.shape} and type {images.dtype}; expected "
            "numbers."
        )
    low, high = float(images.min()), float(images.max())
    if not np.isfinite([low, high]).all():
        raise GlassformerError(f"{path}: array images contains values that are not finite.")
    if images.dtype.kind in "iu" and low >= 0 and 16 < high <= 255:
        return lambda image: image.astype(np.uint8)
    low = min(low, 0.0)
    span = (1.0 if low >= 0 and high <= 1 else high - low) or 1.0
    report().remark(f"{path}: the values of images, {low:g} to {low + span:g}, are scaled to 0–255")
    return lambda image: np.rint((image - low) / span * 255).astype(np.uint8)
