"""The one place where a model is opened: a folder of ours, a folder or a name of the Hugging Face
hub, a LoRA adapter, or a file in another format. Models of others are converted in memory."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from glassformer.atomic_files import file_digest
from glassformer.checkpoint.model_folder import (
    WEIGHTS,
    Saved,
    load_config,
    load_generation,
    load_model,
)
from glassformer.checkpoint.safetensors_file import SafetensorsFile, reading_safetensors
from glassformer.config import Config, Values
from glassformer.data.text_files import DataPath, local_path
from glassformer.errors import GlassformerError
from glassformer.models import name_of
from glassformer.preprocessing import Preprocessing, load_preprocessing
from glassformer.pretrained.export_hub import write_hub
from glassformer.pretrained.foreign_model import ForeignModel
from glassformer.pretrained.formats import format_of
from glassformer.pretrained.hub import downloaded, is_hub_name
from glassformer.pretrained.hugging_face import (
    describe,
    is_hugging_face,
    read_folder,
    read_generation,
    read_preprocessing,
)
from glassformer.pretrained.peft_adapter import WEIGHTS as ADAPTER_WEIGHTS
from glassformer.pretrained.peft_adapter import Adapter, is_adapter, open_adapter
from glassformer.wording import cause

Source = str | os.PathLike[str]
FoundT = TypeVar("FoundT")


def located(source: Source) -> DataPath:
    """The folder or file that a source means; a name of the hub is downloaded."""
    name = os.fspath(source)
    return downloaded(name) if is_hub_name(name) else local_path(name)


def open_model(source: Source) -> Saved:
    """The model of a source, with its preprocessing."""
    path = located(source)
    if _is_file(path):
        return _saved(format_of(path).read(path))
    folder = _folder(path)
    if is_adapter(folder):
        return _saved(read_adapter(folder))
    return _saved(read_folder(folder)) if is_hugging_face(folder) else load_model(folder)


def open_config(source: Source) -> tuple[str, Config]:
    """Name and config of the model of a source; its weights are not read."""
    path = located(source)
    if _is_file(path):
        return format_of(path).description(path)
    folder = _folder(path)
    if is_adapter(folder):
        adapter = open_adapter(folder)
        with _base_folder(adapter) as base:
            found = describe(base, adapter)
        return found.layout.model, found.config
    if is_hugging_face(folder):
        found = describe(folder)
        return found.layout.model, found.config
    return load_config(folder)


def open_preprocessing(source: Source) -> Preprocessing:
    """The preprocessing of the model of a source; its weights are not read if that is possible."""
    path = located(source)
    if _is_file(path):
        return format_of(path).read(path).preprocessing
    return _read(path, read_preprocessing, load_preprocessing)


def open_generation(source: Source) -> Values:
    """The defaults of generation of the model of a source; its weights are not read."""
    path = located(source)
    if _is_file(path):
        return {}  # no format of single files has any
    return _read(path, read_generation, load_generation)


def _read(path: DataPath, theirs: Callable[..., FoundT], ours: Callable[[Path], FoundT]) -> FoundT:
    """A part of the model in a folder, of theirs or ours; of an adapter, with its base model."""
    folder = _folder(path)
    if is_adapter(folder):
        adapter = open_adapter(folder)
        with _base_folder(adapter) as base:
            return theirs(base, adapter)
    return theirs(folder) if is_hugging_face(folder) else ours(folder)


def read_adapter(folder: Path, base: Source | None = None) -> ForeignModel:
    """A LoRA adapter merged into its base model: `base`, or the one that it names."""
    adapter = open_adapter(folder)
    with _base_folder(adapter, base) as base_folder:
        found = read_folder(base_folder, adapter)
    if base is None or adapter.base is None or _is_same(os.fspath(base), adapter.base):
        return found
    note = f"the adapter names {adapter.base} as its base model, but was merged into {base}"
    return replace(found, notes=(*found.notes, note))


def _is_same(one: str, other: str) -> bool:
    """Whether two sources are the same folder or file, or the same name on the hub."""
    if is_hub_name(one) and is_hub_name(other):
        return one.partition("@")[0] == other.partition("@")[0]
    return Path(one).resolve() == Path(other).resolve()


@contextmanager
def _base_folder(adapter: Adapter, base: Source | None = None) -> Iterator[Path]:
    """The base model of an adapter in Hugging Face's format; one of ours is converted."""
    path = _base_of(adapter, base)
    if path.is_dir() and is_adapter(_folder(path)):
        raise GlassformerError(
            f"{path}, the base model of {adapter.folder}, is an adapter itself. Merge it first: "
            "glassformer import ADAPTER."
        )
    if path.is_dir() and is_hugging_face(_folder(path)):
        yield _folder(path)
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


def has_quantized_weights(source: Source) -> bool:
    """Whether the model of a source has 8-bit weights; only the header of the file is read. Those
    of other tools are converted to float32."""
    path = located(source)
    if _is_file(path) or is_adapter(_folder(path)) or is_hugging_face(_folder(path)):
        return False
    weights = _folder(path) / WEIGHTS
    with reading_safetensors(weights, f"{weights} does not exist. Copy the whole model folder."):
        return "I8" in SafetensorsFile(weights).types.values()


def weights_digest(source: Source) -> str:
    """The SHA-256 of the weights, by which a change is noticed."""
    path = located(source)
    if not _is_file(path) and is_adapter(_folder(path)):
        adapter = open_adapter(_folder(path))
        base = _base_of(adapter, None)
        return f"{file_digest(adapter.folder / ADAPTER_WEIGHTS)[:32]}+{weights_digest(str(base))}"
    files = [path] if _is_file(path) else [_folder(path) / WEIGHTS]
    if not files[0].exists() and isinstance(path, Path):
        files = sorted(path.glob("*.safetensors")) or files
    try:
        digests = [file_digest(Path(str(file))) for file in files]
    except OSError as error:
        raise GlassformerError(
            f"{files[0]} cannot be read: {cause(error)}. Pass the folder of a trained model."
        ) from None
    return digests[0] if len(digests) == 1 else "+".join(digest[:16] for digest in digests)


def _is_file(path: DataPath) -> bool:
    return path.is_file()


def _folder(path: DataPath) -> Path:
    return path if isinstance(path, Path) else Path(str(path))


def _saved(found: ForeignModel) -> Saved:
    return Saved(name_of(found.model), found.model.eval(), found.preprocessing, found.generation)
