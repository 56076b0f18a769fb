"""Models of other tools where they are stored: a file, a folder of Hugging Face's tools, or a LoRA
adapter of a base model."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.atomic_files import file_digest
from glassformer.checkpoint.missing_folder import is_hub_name
from glassformer.checkpoint.model_folder import Saved
from glassformer.checkpoint.open import Source, StoredModel, located, open_model, stored
from glassformer.config import Config, Values
from glassformer.data.text_files import DataPath
from glassformer.errors import GlassformerError
from glassformer.preprocessing import Preprocessing
from glassformer.pretrained.export_hub import write_hub
from glassformer.pretrained.foreign_model import ForeignModel
from glassformer.pretrained.formats import format_of
from glassformer.pretrained.hugging_face import (
    describe,
    is_hugging_face,
    read_folder,
    read_generation,
    read_preprocessing,
)
from glassformer.pretrained.peft_adapter import WEIGHTS as ADAPTER_WEIGHTS
from glassformer.pretrained.peft_adapter import Adapter, is_adapter, open_adapter


def foreign_model(path: DataPath) -> StoredModel | None:
    """The model of another tool; None: there is none."""
    if path.is_file():
        return ModelFile(path)
    folder = Path(str(path))
    is_theirs = is_adapter(folder) or is_hugging_face(folder)
    return ForeignFolder(folder) if is_theirs else None


class ModelFile(StoredModel):
    """A model in a file, perhaps in an archive."""

    def __init__(self, file: DataPath) -> None:
        super().__init__(Path(str(file)))
        self._file = file

    def model(self) -> Saved:
        return format_of(self._file).read(self._file)

    def config(self) -> tuple[str, Config]:
        return format_of(self._file).description(self._file)

    def preprocessing(self) -> Preprocessing:
        return format_of(self._file).read(self._file).preprocessing

    def generation(self) -> Values:
        return {}  # no format of single files has any

    def files(self) -> list[Path]:
        return [self.path]


class ForeignFolder(StoredModel):
    """A model as transformers saves it, or a LoRA adapter, which is merged into its base model."""

    def model(self) -> Saved:
        with self._parts() as parts:
            return read_folder(*parts)

    def config(self) -> tuple[str, Config]:
        with self._parts() as parts:
            description = describe(*parts)
        return description.layout.model, description.config

    def preprocessing(self) -> Preprocessing:
        with self._parts() as parts:
            return read_preprocessing(*parts)

    def generation(self) -> Values:
        with self._parts() as parts:
            return read_generation(*parts)

    def digest(self) -> str:
        if not is_adapter(self.path):
            return super().digest()
        own = file_digest(self.path / ADAPTER_WEIGHTS)
        base = _base_of(open_adapter(self.path), None)
        return f"{own[:32]}+{stored(str(base)).digest()}"

    @contextmanager
    def _parts(self) -> Iterator[tuple[Path, Adapter | None]]:
        """The folder of the model, and what is merged into it."""
        if not is_adapter(self.path):
            yield self.path, None
            return
        adapter = open_adapter(self.path)
        with _base_folder(adapter) as base:
            yield base, adapter


def read_adapter(folder: Path, base: Source | None = None) -> ForeignModel:
    """A LoRA adapter merged into its base model: `base`, or the one that it names."""
    adapter = open_adapter(folder)
    with _base_folder(adapter, base) as base_folder:
        merged = read_folder(base_folder, adapter)
    if base is None or adapter.base is None or _is_same(os.fspath(base), adapter.base):
        return merged
    note = f"the adapter names {adapter.base} as its base model, but was merged into {base}"
    return replace(merged, notes=(*merged.notes, note))


def _is_same(one: str, other: str) -> bool:
    """Whether two sources are the same folder or file, or the same name on the hub."""
    if is_hub_name(one) and is_hub_name(other):
        return one.partition("@")[0] == other.partition("@")[0]
    return Path(one).resolve() == Path(other).resolve()


@contextmanager
def _base_folder(adapter: Adapter, base: Source | None = None) -> Iterator[Path]:
    """The base model of an adapter in Hugging Face's format; one of ours is converted."""
    path = _base_of(adapter, base)
    folder = Path(str(path))
    if path.is_dir() and is_adapter(folder):
        raise GlassformerError(
            f"{path}, the base model of {adapter.folder}, is an adapter itself. Merge it first: "
            "glassformer import ADAPTER."
        )
    if path.is_dir() and is_hugging_face(folder):
        yield folder
        return
    with TemporaryDirectory(prefix="glassformer-") as scratch:
        write_hub(open_model(str(path)), Path(scratch), "")
        yield Path(scratch)


def _base_of(adapter: Adapter, base: Source | None) -> DataPath:
    name = base if base is not None else adapter.base
    cure = f"Merge the adapter with glassformer import {adapter.folder} --base MODEL."
    if name is None:
        raise GlassformerError(f"{adapter.folder} does not name its base model. {cure}")
    try:
        path = located(name)
    except GlassformerError as error:  # what looks like a name on the hub may have been a folder
        if base is not None:
            raise
        raise GlassformerError(
            f"the base model of {adapter.folder} cannot be opened: {error} If it is elsewhere: "
            f"{cure}"
        ) from None
    if not path.exists():
        raise GlassformerError(
            f"{name}, the base model of {adapter.folder}, does not exist. {cure}"
        )
    return path
