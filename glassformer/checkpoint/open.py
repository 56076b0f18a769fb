"""The one place where a model is opened, whoever wrote it.

    runs/gpt                     a folder of ours
    smollm2.gguf, openai/gpt …   a file, a folder or a name of the hub in another format, which an
                                 annex converts in memory

So every verb takes every model, and no verb knows about it.
"""

import importlib
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from glassformer.checkpoint.model_folder import (
    WEIGHTS,
    SafetensorsFile,
    Saved,
    is_ours,
    load_config,
    load_generation,
    load_model,
    reading_safetensors,
)
from glassformer.checkpoint.model_names import is_hub_name
from glassformer.config import Config, Values
from glassformer.data.archives import DataPath, local_path
from glassformer.errors import GlassformerError
from glassformer.files import file_digest
from glassformer.preprocessing import Preprocessing, load_preprocessing
from glassformer.wording import cause

ModelPath = str | os.PathLike[str]

# Modules that know other formats, imported when a model needs one. The table is closed: a file on
# disk can only choose from it.
ANNEXES = {
    "formats": "glassformer.formats.open_model",
    "hub": "glassformer.formats.hub",
}


class StoredModel(ABC):
    """A model in a folder or a file, whose parts are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def model(self) -> Saved:
        """The model with its preprocessing."""

    @abstractmethod
    def config(self) -> tuple[str, Config]:
        """The name of the model and its config, without reading its weights."""

    @abstractmethod
    def preprocessing(self) -> Preprocessing:
        """Its preprocessing, without reading its weights if that is possible."""

    @abstractmethod
    def generation(self) -> Values:
        """Its defaults of generation."""

    def has_quantized_weights(self) -> bool:
        """Whether it has 8-bit weights. Those of other tools are converted to float32."""
        return False

    def files(self) -> list[Path]:
        """The files of its weights."""
        single = self.path / WEIGHTS
        return [single] if single.exists() else sorted(self.path.glob("*.safetensors")) or [single]

    def digest(self) -> str:
        """The SHA-256 of its weights, by which a change is noticed."""
        files = self.files()
        try:
            digests = [file_digest(file) for file in files]
        except OSError as error:
            raise GlassformerError(
                f"{files[0]} cannot be read: {cause(error)}. Pass the folder of a trained model."
            ) from None
        return digests[0] if len(digests) == 1 else "+".join(digest[:16] for digest in digests)


class ModelFolder(StoredModel):
    """A model in our own format."""

    def model(self) -> Saved:
        return load_model(self.path)

    def config(self) -> tuple[str, Config]:
        return load_config(self.path)

    def preprocessing(self) -> Preprocessing:
        return load_preprocessing(self.path)

    def generation(self) -> Values:
        return load_generation(self.path)

    def has_quantized_weights(self) -> bool:
        weights = self.path / WEIGHTS
        missing = f"{weights} does not exist. Copy the whole model folder."
        with reading_safetensors(weights, missing):
            return "I8" in SafetensorsFile(weights).types.values()


def stored(source: ModelPath) -> StoredModel:
    """The model that a source means; a name of the hub is downloaded."""
    path = located(source)
    folder = path if isinstance(path, Path) else Path(str(path))
    if is_ours(folder) and (folder / WEIGHTS).is_file():
        return ModelFolder(folder)
    foreign: StoredModel | None = _annex("formats").foreign_model(path)
    return foreign or ModelFolder(folder)  # which says what is missing


def located(source: ModelPath) -> DataPath:
    """The folder or file that a source means; a name of the hub is downloaded."""
    name = os.fspath(source)
    path = local_path(name)
    if not path.exists() and is_hub_name(name):
        path = _annex("hub").downloaded(name)
    return path


def pinned(source: str) -> str:
    """A name of the hub with the commit that it means now; anything else as it is."""
    return str(_annex("hub").pinned(source)) if is_hub_name(source) else source


def _annex(name: str) -> Any:
    return importlib.import_module(ANNEXES[name])


def open_model(source: ModelPath) -> Saved:
    return stored(source).model()


def open_config(source: ModelPath) -> tuple[str, Config]:
    return stored(source).config()


def open_preprocessing(source: ModelPath) -> Preprocessing:
    return stored(source).preprocessing()


def open_generation(source: ModelPath) -> Values:
    return stored(source).generation()
