"""A model in one folder, with everything that is needed to use it.

    config.json                which model, its shape and its labels
    model.safetensors          its weights
    preprocessor_config.json   how the user's data becomes its input
    tokenizer.json             its vocabulary, if it reads text
    target_tokenizer.json      the vocabulary of its translations, if they have their own
    generation_config.json     defaults for generation, written by the user
    README.md                  the model card

Nothing in it is pickle, nothing names code to import, and equal models give equal bytes: there are
no dates and no paths. The weights carry checksums of themselves and of the files beside them, by
which later damage is detected.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.atomic_files import file_digest, read_json, write_file, write_json
from glassformer.checkpoint.run_record import is_run
from glassformer.config import Config, parse
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import MODELS, name_of, row
from glassformer.preprocessing import KINDS, SETTINGS, Preprocessing, load_preprocessing
from glassformer.wording import cause

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
GENERATION = "generation_config.json"
CARD = "README.md"
LARGEST_TEXT = 2**28  # bytes: the largest tokenizers have some 2**25
DIGEST = "sha256"  # in the metadata of the weights, beside those of the other files


def file_names() -> set[str]:
    """Every file that a model folder may contain."""
    beside = {name for kind in KINDS.values() for name in kind.file_names()}
    return {CONFIG, WEIGHTS, GENERATION, CARD} | beside


def check_replaceable(folder: Path, force: bool) -> None:
    """Refuse a folder to write a model to, unless it is empty or, with `force`, a model's alone."""
    if folder.is_file():
        raise UsageError(f"{folder} is a file. Choose another --out.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if is_run(folder):
        raise GlassformerError(f"{folder} contains a run. Choose another --out.")
    if not (folder / CONFIG).is_file():
        raise GlassformerError(f"{folder} contains other files. Choose another --out.")
    if not force:
        raise GlassformerError(
            f"{folder} already contains a model. Use --force to replace it, or choose another "
            "--out."
        )


@dataclass(frozen=True)
class Saved:
    """The content of a model folder."""

    name: str
    model: nn.Module
    preprocessing: Preprocessing
    generation: dict[str, Any]


def save_model(
    folder: Path, model: nn.Module, preprocessing: Preprocessing, card: str = ""
) -> None:
    """Write the folder. The weights are written last and replaced in one step: a model that is
    still in training can be used at any moment."""
    config = model.config
    if not isinstance(config, Config):
        raise TypeError(f"{type(model).__name__} has no config")
    write_json(folder / CONFIG, {"model_type": name_of(model), **config.model_dump(mode="json")})
    beside = [CONFIG, *preprocessing.save(folder)]
    if card:
        write_file(folder / CARD, card)
    digests = {name: file_digest(folder / name) for name in beside}
    write_file(folder / WEIGHTS, weights_file(model, digests))


def weights_file(model: nn.Module, metadata: dict[str, str] | None = None) -> bytes:
    """The weights of a model as a safetensors file, with a checksum of themselves."""
    state = distinct(model.state_dict(keep_vars=True))
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    about = {"format": "pt", DIGEST: _digest(weights)} | (metadata or {})
    return _in_order(save(weights, metadata=about))


def load_model(folder: Path, weights: Path | None = None) -> Saved:
    """Read the folder. Nothing in it is executed, and a shape that does not fit is refused before
    memory is allocated for it. `weights` is a file with other weights of the same model."""
    name, config = load_config(folder)
    model = without_memory(name, config)
    metadata = _load_weights(model, weights or folder / WEIGHTS)
    for file in sorted(file_names() & metadata.keys()):
        if not (folder / file).is_file():
            raise GlassformerError(f"{folder / file} does not exist. Copy the whole model folder.")
        if metadata[file] != file_digest(folder / file):
            raise GlassformerError(
                f"{folder / file} is damaged: it differs from what was saved with {WEIGHTS}. "
                "Copy it again."
            )
    preprocessing = load_preprocessing(folder)
    preprocessing.check_model(config, str(folder / SETTINGS), "Copy the whole model folder.")
    generation = read_json(folder / GENERATION) if (folder / GENERATION).is_file() else {}
    return Saved(name, model.eval(), preprocessing, generation)


def without_memory(name: str, config: Config) -> nn.Module:
    """A model of shapes only, whose weights come from a file: see `fill`."""
    with torch.device("meta"), _Uninitialized():
        return row(name).model(config)


def fill(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give a model without memory its weights, each by its first name."""
    expected = model.state_dict(keep_vars=True)
    parameters = {
        id(known): nn.Parameter(weights[name]) if isinstance(known, nn.Parameter) else weights[name]
        for name, known in distinct(expected).items()
    }
    complete = {name: parameters[id(tensor)] for name, tensor in expected.items()}
    model.load_state_dict(complete, assign=True)


def load_config(folder: Path) -> tuple[str, Config]:
    """Name and config of the model in a folder."""
    if not (folder / CONFIG).is_file():
        raise GlassformerError(_missing(folder))
    _check_files(folder)
    values = read_json(folder / CONFIG)
    name = str(values.pop("model_type", None))
    if name not in MODELS:
        raise GlassformerError(
            f'{folder / CONFIG}: unknown model_type "{name}". Known models: {", ".join(MODELS)}.'
        )
    return name, parse(row(name).config, values, where=str(folder / CONFIG))


def _check_files(folder: Path) -> None:
    """Reading a pipe, a device or a file of endless zeros would never end."""
    for name in sorted(file_names() - {CARD}):
        path = folder / name
        if path.exists() and not path.is_file():
            raise GlassformerError(f"{path} is not a file.")
        if name != WEIGHTS and path.exists() and path.stat().st_size > LARGEST_TEXT:
            raise GlassformerError(f"{path} is far too large for a file of this name.")


class _Uninitialized(TorchFunctionMode):
    """Skips initialisation: without memory it has no effect, and it would import torch.compile."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == nn.init.__name__:
            return (*args, *(kwargs or {}).values())[0]
        return func(*args, **(kwargs or {}))


def _load_weights(model: nn.Module, path: Path) -> dict[str, str]:
    """Fill the model. Returns the metadata of the file."""
    stored_once = distinct(model.state_dict(keep_vars=True))
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            metadata: dict[str, str] = file.metadata() or {}
        for name, tensor in stored_once.items():
            if shapes.get(name) != tuple(tensor.shape):
                found = f"has shape {shapes[name]}" if name in shapes else "is missing"
                what = f"{name} {found}; {CONFIG} expects {tuple(tensor.shape)}"
                raise GlassformerError(f"{path}: {what}. Copy both files from the same model.")
        if extra := sorted(shapes.keys() - stored_once.keys()):
            what = f"{extra[0]} is not part of the model in {CONFIG}"
            raise GlassformerError(f"{path}: {what}. Copy both files from the same model.")
        weights = load_file(path)
    except FileNotFoundError:
        raise GlassformerError(
            f"{path} does not exist: training has not saved a model yet, or it was deleted."
        ) from None
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
    except SafetensorError as error:
        raise GlassformerError(
            f"{path} is not a safetensors file, or is damaged: {cause(error)}. Copy it again."
        ) from None
    if metadata.get(DIGEST, digest := _digest(weights)) != digest:  # other tools write none
        raise GlassformerError(f"{path} is damaged: it differs from what was saved. Copy it again.")
    # Always float32: other types are a choice of speed, made by the runtime. And a copy: a file
    # that is mapped cannot be replaced on Windows, where a training may want to.
    fill(
        model, {name: weights.pop(name).to(torch.float32, copy=True) for name in list(stored_once)}
    )
    return metadata


def _digest(weights: dict[str, Tensor]) -> str:
    """SHA-256 of the weights with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _in_order(file: bytes) -> bytes:
    """The same safetensors file with its metadata in a fixed order; the library's is random."""
    end = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(file[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    ordered = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return file[:8] + ordered.ljust(end - 8) + file[end:]


def distinct(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tied weights are one tensor with several names: keep the first name."""
    first = {id(tensor): name for name, tensor in reversed(state.items())}
    return {name: tensor for name, tensor in state.items() if first[id(tensor)] == name}


def _missing(folder: Path) -> str:
    if not folder.exists():
        return f"{folder} does not exist. Pass a folder that glassformer train created."
    if folder.is_file():
        return f"{folder} is a file, not a model folder."
    if (folder / WEIGHTS).is_file():
        return f"{folder / CONFIG} does not exist. Copy the whole model folder."
    if (folder / "recipe.yaml").is_file():
        return f"{folder} is a run that has not saved a model yet. Continue it with --resume."
    inside = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}"))
    hint = f" Did you mean {folder / inside[0]}?" if inside else ""
    return f"{folder} does not contain a model: there is no {CONFIG} in it.{hint}"
