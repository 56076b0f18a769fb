"""A model as it was read from another format."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.checkpoint.model_folder import Saved
from glassformer.checkpoint.training_state import SafetensorsFile, reading_safetensors
from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.files import read_json
from glassformer.models import name_of, row
from glassformer.preprocessing.preprocessing import Preprocessing
from glassformer.wording import an, counted

# --- foreign model ---


@dataclass(frozen=True, kw_only=True)
class ForeignModel(Saved):
    """A model of another tool, converted to one of ours."""

    about: str
    """What it is, in a few words."""
    command: tuple[str, ...]
    """A verb to try it with, and what follows the folder."""
    notes: tuple[str, ...] = ()


def converted(
    architecture: str,
    model: nn.Module,
    preprocessing: Preprocessing,
    notes: Iterable[str],
    generation: Values | None = None,
) -> ForeignModel:
    """A model that had this architecture, with a command to try it."""
    size = sum(parameter.numel() for parameter in model.parameters())
    return ForeignModel(
        name_of(model),
        model.eval(),
        preprocessing,
        generation or {},
        about=f"{architecture}, {counted(size, 'parameter')}",
        command=command_to_try(model, preprocessing),
        notes=tuple(notes),
    )


def command_to_try(model: Any, preprocessing: Preprocessing) -> tuple[str, ...]:
    """A verb to try a model with, and what follows the folder."""
    if not getattr(model.config, "has_head", True):
        return ("embed", "A sentence.")
    mask = getattr(preprocessing, "mask_name", "")
    return tuple(word.format(mask=mask) for word in row(name_of(model)).trial)


# --- weight files ---
# The tensors in a folder: one safetensors file, or several with an index.
#
# Headers are checked against the size of their file by the safetensors library before anything is
# read, and a tensor is read only when it is asked for, as float32.

CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth")
MOST_FILES = 10_000
_SHAPE = tuple[int, ...]


class WeightFiles:
    """Tensors by name; `shapes` is known from the headers alone."""

    def __init__(self, files: Mapping[str, Path], shapes: Mapping[str, _SHAPE]):
        self._files = dict(files)
        self.shapes = dict(shapes)
        self.types: set[str] = set()

    def renamed(self, renames: tuple[tuple[str, str], ...]) -> "WeightFiles":
        """The same tensors under the names that a layout expects; `renames` are regular
        expressions."""
        self._own_names = {}
        for name in self.shapes:
            usual = name
            for old, new in renames:
                usual = re.sub(old, new, usual)
            self._own_names[usual] = name
        self.shapes = {usual: self.shapes[own] for usual, own in self._own_names.items()}
        return self

    _own_names: dict[str, str] | None = None

    def place(self, name: str) -> Path:
        """The file that holds a tensor."""
        return self._files[name if self._own_names is None else self._own_names[name]]

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]:
        """Each tensor with its name, file by file, in float32 and in memory of its own."""
        own = {name: name if self._own_names is None else self._own_names[name] for name in names}
        for path in dict.fromkeys(map(self.place, names)):
            here = {own[name]: name for name in names if self.place(name) == path}
            with _explaining(path):
                for stored, tensor in SafetensorsFile(path).read([*here]):
                    self.types.add(str(tensor.dtype).removeprefix("torch."))
                    if not tensor.is_floating_point():
                        raise GlassformerError(
                            f"{path}: {here[stored]} has the type {tensor.dtype}, not a "
                            "floating-point one. Quantised weights cannot be imported from "
                            "safetensors."
                        )
                    yield here[stored], tensor.to(torch.float32)


def open_weights(folder: Path) -> WeightFiles:
    """The tensors of the model in a folder, from their headers."""
    if (folder / SINGLE).is_file():
        paths = [folder / SINGLE]
        listed: dict[str, Any] | None = None
    elif (folder / INDEX).is_file():
        listed = read_json(folder / INDEX).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(n, str) for n in listed.values()):
            raise GlassformerError(f"{folder / INDEX} has no weight_map. Copy it again.")
        paths = [folder / name for name in sorted({*listed.values()})]
        if len(paths) > MOST_FILES or any(path.parent != folder for path in paths):
            raise GlassformerError(f"{folder / INDEX} names files outside its folder.")
    else:
        named = read_json(folder / CONFIG).get("architectures")
        kind = named[0] if isinstance(named, list) and named else "AutoModel"
        program = f'{kind}.from_pretrained(folder).save_pretrained("other")'
        cure = f"convert it where you trust it with transformers: {program}"
        raise no_weights(folder, CONFIG, SINGLE, PICKLES, cure)
    files, shapes = dict[str, Path](), dict[str, _SHAPE]()
    for path in paths:
        with _explaining(path):
            found = SafetensorsFile(path).shapes
        files |= dict.fromkeys(found, path)
        shapes |= found
    if listed is not None and (lost := sorted(listed.keys() - files.keys())):
        raise GlassformerError(
            f"{folder / listed[lost[0]]} should contain {lost[0]}, by {INDEX}, but does not. Copy "
            "both again."
        )
    return WeightFiles(files, shapes)


def open_file(path: Path) -> tuple[WeightFiles, dict[str, str]]:
    """The tensors of one file, from its header, and its metadata."""
    with _explaining(path):
        file = SafetensorsFile(path)
    return WeightFiles(dict.fromkeys(file.shapes, path), file.shapes), file.metadata


def _explaining(path: Path) -> AbstractContextManager[None]:
    """Damage is an error with the name of the file."""
    return reading_safetensors(path, f"{path} does not exist. Copy the whole model folder.")


def no_weights(
    folder: Path, config: str, weights: str, pickles: Iterable[str], cure: str
) -> GlassformerError:
    """What to say about a folder that has a config but no safetensors file."""
    for name in pickles:
        if (folder / name).exists():
            return GlassformerError(
                f"{folder / name} is a pickle, which can run any code when it is opened, so "
                f"glassformer does not. Use a release with {weights}, or {cure}."
            )
    return GlassformerError(
        f"{folder} has {an(config)} but no weights: there is no {weights} in it."
    )
