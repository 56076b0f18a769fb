"""From the tensors of another tool to a model of ours, and back, by the links of a layout.

    model.safetensors  →  WeightFiles  →  read_model, by the links of a layout  →  ForeignModel
    their_tensors      ←  a model of ours

Names and shapes are checked before any tensor is read, and tensors are read one by one.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from glassformer.checkpoint.model_folder import (
    SafetensorsFile,
    Saved,
    distinct,
    fill,
    reading_safetensors,
    without_memory,
)
from glassformer.checkpoint.model_names import CONFIG
from glassformer.config import Config, Values
from glassformer.errors import GlassformerError
from glassformer.files import read_json
from glassformer.formats.family import Layout
from glassformer.formats.links import Link
from glassformer.models import name_of, row
from glassformer.preprocessing import Preprocessing
from glassformer.wording import an, counted

# --- the tensors in a folder: one safetensors file, or several with an index ---
#
# The safetensors library checks headers against the size of their file before anything is read.

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth")
MOST_FILES = 10_000
Shape = tuple[int, ...]
Renames = tuple[tuple[str, str], ...]
"""Regular expressions, and what takes the place of their matches."""


class WeightFiles:
    """Tensors by name; `shapes` is known from the headers alone."""

    def __init__(self, files: Mapping[str, Path], shapes: Mapping[str, Shape]):
        self._files = dict(files)
        self.shapes = dict(shapes)
        self.types: set[str] = set()
        self._own_names: dict[str, str] | None = None

    def renamed(self, renames: Renames) -> "WeightFiles":
        """The same tensors under the names that a layout expects."""
        self._own_names = {renamed(name, renames): name for name in self.shapes}
        self.shapes = {usual: self.shapes[stored] for usual, stored in self._own_names.items()}
        return self

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]:
        """Each tensor with its name, file by file, in float32 and in memory of its own."""
        raw = {name: name if self._own_names is None else self._own_names[name] for name in names}
        for path in dict.fromkeys(self._files[raw[name]] for name in names):
            here = {raw[name]: name for name in names if self._files[raw[name]] == path}
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


def renamed(name: str, renames: Renames) -> str:
    """A name with each regular expression replaced, one after the other."""
    for pattern, replacement in renames:
        name = re.sub(pattern, replacement, name)
    return name


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
    files, shapes = dict[str, Path](), dict[str, Shape]()
    for path in paths:
        with _explaining(path):
            in_file = SafetensorsFile(path).shapes
        files |= dict.fromkeys(in_file, path)
        shapes |= in_file
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


def check_file_size(path: Path, largest: int) -> None:
    if path.is_file() and path.stat().st_size > largest:
        raise GlassformerError(f"{path} is far too large for a file of this name.")


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


# --- from tensors to a model, and back ---

OWN = {"temperature": 1.0}  # tensors of ours that no other tool has, and their usual value
SHOWN = 3  # names in an error


class TensorSource(Protocol):
    """Tensors by name, read when they are needed."""

    shapes: dict[str, Shape]

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]: ...


def read_model(
    layout: Layout, config: Config, source: TensorSource, where: str
) -> tuple[nn.Module, list[str]]:
    """A model of ours with their weights, and the names of the tensors that were left out."""
    model = without_memory(layout.model, config)
    ours = distinct(model.state_dict(keep_vars=True))
    links_in_file = dict[str, Link]()
    for link in layout.links(config):
        names = tensor_names(link, layout.prefix)
        links_in_file[next((name for name in names if name in source.shapes), link.theirs)] = link
    _check_shapes(links_in_file, ours, source, where)
    extra = _extra(layout, links_in_file.keys(), source, where)
    weights = {name: torch.tensor(value) for name, value in OWN.items() if name in ours}
    for name, tensor in source.read([*links_in_file]):
        link = links_in_file[name]
        _check_finite(tensor, name, where)
        for name, part in zip(link.ours, link.split(tensor), strict=True):
            weights[name] = part.contiguous()
    if lost := sorted(ours.keys() - weights.keys()):
        raise ValueError(f"{layout.architecture} has no link for {lost[0]}")
    fill(model, weights)
    return model.eval(), extra


def _check_finite(tensor: Tensor, name: str, where: str) -> None:
    """Its extremes are NaN if one of its values is; unlike isfinite, this needs no memory."""
    if tensor.numel() and not all(bool(end.isfinite()) for end in tensor.aminmax()):
        raise GlassformerError(f"{where}: {name} has values that are not finite. Copy it again.")


def their_tensors(layout: Layout, model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model of ours under their names, in their layout."""
    state = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    if "temperature" in state:  # they have none: a head that is scaled gives the same probabilities
        for name in ("head.weight", "head.bias"):
            state[name] = state[name] / state["temperature"]
    tensors = dict[str, Tensor]()
    for link in layout.links(model.config):
        tensors[link.theirs] = link.join(*(state[name] for name in link.ours)).contiguous()
        tensors |= {name: tensors[link.theirs].clone() for name in link.copies}
    return tensors


def tensor_names(link: Link, prefix: str) -> tuple[str, ...]:
    """What files may call a tensor: its own name, an alias, or without the prefix of the body."""
    return (link.theirs, *link.aliases, link.theirs.removeprefix(prefix))


def _check_shapes(
    links_in_file: dict[str, Link], ours: dict[str, Tensor], source: TensorSource, where: str
) -> None:
    if missing := [name for name in links_in_file if name not in source.shapes]:
        raise GlassformerError(
            f"{where}: {_listed(missing)} missing. The file belongs to another config.json, or is "
            "not complete."
        )
    for name, link in links_in_file.items():
        with torch.device("meta"):
            expected = tuple(link.join(*(ours[name] for name in link.ours)).shape)
        if source.shapes[name] != expected:
            raise GlassformerError(
                f"{where}: {name} has shape {source.shapes[name]}; config.json expects {expected}. "
                "Copy both files from the same model."
            )


def _extra(layout: Layout, used: Container[str], source: TensorSource, where: str) -> list[str]:
    """Tensors that are knowingly left out; any other is an error."""
    others = [name for name in source.shapes if name not in used]
    is_computed = _matcher(layout.computed)
    others = [name for name in others if not is_computed(name)]
    is_left_out = _matcher(layout.left_out)
    if unknown := sorted(name for name in others if not is_left_out(name)):
        raise GlassformerError(
            f"{where}: {_listed(unknown)} not part of {an(layout.architecture)} with this "
            "config.json. Copy both files from the same model."
        )
    return sorted(others)


def _matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    compiled = [re.compile(pattern) for pattern in patterns]
    return lambda name: any(pattern.fullmatch(name) for pattern in compiled)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more are" if len(names) > SHOWN else None
    return ", ".join(names[:SHOWN]) + (more or (" is" if len(names) == 1 else " are"))


# --- a model as it was read from another format ---


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
