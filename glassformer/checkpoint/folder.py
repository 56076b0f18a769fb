"""A model in one folder, with all that is needed to use it.

    config.json              which model, and its shape
    model.safetensors        its weights
    tokenizer.json           text ↔ ids
    target_tokenizer.json    of a translator whose target has a vocabulary of its own
    generation_config.json   how it likes to be sampled from, if anybody said so
    README.md                the model card

Nothing in it is pickle, nothing names code to import, and equal models give equal bytes: there are
no dates and no paths. The weights carry checksums of themselves, of config.json and of
tokenizer.json, so that later damage to any of them is found before it is believed.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.checkpoint.atomic import file_digest, new_file, write_file
from glassformer.config import Config, parse
from glassformer.errors import GlassformerError
from glassformer.models import MODELS, entry
from glassformer.text.tokenizers import Tokenizer

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
TARGET_TOKENIZER = "target_tokenizer.json"
GENERATION = "generation_config.json"
CARD = "README.md"
LARGEST_TEXT = 2**28  # bytes: the largest tokenizers have some 2**25
DIGEST = "sha256"  # in the metadata of the weights, beside those of CONFIG and TOKENIZER


@dataclass(frozen=True)
class Saved:
    """What a model folder holds."""

    name: str
    model: nn.Module
    tokenizer: Tokenizer | None
    """None for a model that reads numbers."""
    target_tokenizer: Tokenizer | None
    """Only of a translator whose target has a vocabulary of its own."""
    generation: dict[str, Any]


def save_model(
    folder: Path,
    model: nn.Module,
    tokenizer: Tokenizer | None,
    card: str = "",
    target_tokenizer: Tokenizer | None = None,
) -> None:
    """Write the folder. The weights go last but are replaced at once, so that a model that is
    being improved can be used at any moment."""
    config = model.config
    if not isinstance(config, Config):
        raise TypeError(f"{type(model).__name__} has no config")
    values = {"model_type": name_of(model), **config.model_dump(mode="json")}
    write_file(folder / CONFIG, _json(values))
    tokenizers = {TOKENIZER: tokenizer, TARGET_TOKENIZER: target_tokenizer}
    beside = [CONFIG]
    for name, each in tokenizers.items():
        if each is not None:
            beside.append(name)
            with new_file(folder / name) as partial:
                each.save(partial)
    if card:
        write_file(folder / CARD, card)
    weights = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in _once_each(model.state_dict(keep_vars=True)).items()
    }
    metadata = {"format": "pt", DIGEST: _digest(weights)}
    metadata |= {name: file_digest(folder / name) for name in beside}
    write_file(folder / WEIGHTS, _in_order(save(weights, metadata=metadata)))


def load_model(folder: Path) -> Saved:
    """Read the folder. Nothing in it is executed, and a shape that does not fit is refused before
    memory is taken for it."""
    name, config = load_config(folder)
    with torch.device("meta"), _Uninitialized():  # shapes only: the weights come from the file
        model = entry(name).model(config)
    metadata = _load_weights(model, folder / WEIGHTS)
    tokenizers = {file: Tokenizer.load(folder / file) for file, _ in _vocabularies(config)}
    for file in (CONFIG, *tokenizers):
        if metadata.get(file, digest := file_digest(folder / file)) != digest:
            raise GlassformerError(
                f"{folder / file} is damaged: not what was saved with {WEIGHTS}. Copy it again."
            )
    for file, known in _vocabularies(config):
        if known is not None and tokenizers[file].vocab_size > known:
            raise GlassformerError(
                f"{folder / file} has {tokenizers[file].vocab_size:,} tokens and the model of "
                f"{folder / CONFIG} knows {known:,}: they do not belong together."
            )
    generation = folder / GENERATION
    return Saved(
        name=name,
        model=model.eval(),
        tokenizer=tokenizers.get(TOKENIZER),
        target_tokenizer=tokenizers.get(TARGET_TOKENIZER),
        generation=_read_json(generation) if generation.is_file() else {},
    )


def load_config(folder: Path) -> tuple[str, Config]:
    """Which model a folder holds, and its shape."""
    if not (folder / CONFIG).is_file():
        raise GlassformerError(_missing(folder))
    _check_files(folder)
    values = _read_json(folder / CONFIG)
    name = str(values.pop("model_type", None))
    if name not in MODELS:
        raise GlassformerError(
            f'{folder / CONFIG}: model_type is "{name}". Known are: {", ".join(MODELS)}.'
        )
    return name, parse(entry(name).config, values, where=str(folder / CONFIG))


def _vocabularies(config: Config) -> Iterator[tuple[str, int | None]]:
    """The tokenizers of a model, and how many tokens it knows of each."""
    if getattr(config, "num_features", None) is None:
        yield TOKENIZER, getattr(config, "vocab_size", None)
    if known := getattr(config, "target_vocab_size", None):
        yield TARGET_TOKENIZER, known


def name_of(model: nn.Module) -> str:
    return next(name for name, known in MODELS.items() if type(model) is known.model)


def _check_files(folder: Path) -> None:
    """A pipe or a device would be read for ever, and so would a file of endless zeros."""
    for name in (CONFIG, WEIGHTS, TOKENIZER, TARGET_TOKENIZER, GENERATION):
        path = folder / name
        if path.exists() and not path.is_file():
            raise GlassformerError(f"{path} is not a file.")
        if name != WEIGHTS and path.exists() and path.stat().st_size > LARGEST_TEXT:
            raise GlassformerError(f"{path} is too large to be what its name says.")


class _Uninitialized(TorchFunctionMode):
    """Initialising weights that have no memory would do nothing, and import torch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == nn.init.__name__:
            return (*args, *(kwargs or {}).values())[0]
        return func(*args, **(kwargs or {}))


def _load_weights(model: nn.Module, path: Path) -> dict[str, str]:
    """Fill the model; the metadata of the file."""
    expected = model.state_dict(keep_vars=True)
    stored_once = _once_each(expected)
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            metadata: dict[str, str] = file.metadata() or {}
        for name, tensor in stored_once.items():
            if shapes.get(name) != tuple(tensor.shape):
                found = f"has shape {shapes[name]}" if name in shapes else "is missing"
                raise GlassformerError(
                    f"{path}: {name} {found}; {CONFIG} asks for {tuple(tensor.shape)}. Copy both "
                    "from one place."
                )
        if extra := sorted(shapes.keys() - stored_once.keys()):
            raise GlassformerError(
                f"{path}: {extra[0]} is no part of the model of {CONFIG}. Copy both from one place."
            )
        weights = load_file(path)
    except FileNotFoundError:
        raise GlassformerError(
            f"{path} does not exist: the training has not saved a model yet, or it was deleted."
        ) from None
    except (OSError, SafetensorError) as error:
        raise GlassformerError(
            f"{path} is not a safetensors file, or is damaged: {error}. Copy it again."
        ) from None
    if metadata.get(DIGEST, digest := _digest(weights)) != digest:  # none: another tool wrote it
        raise GlassformerError(f"{path} is damaged: not what was saved. Copy it again.")
    # float32 whatever the file has: other types are a choice of speed, and can be fatal (runtime).
    parameters = {
        id(known): nn.Parameter(value) if isinstance(known, nn.Parameter) else value
        for name, known in stored_once.items()
        for value in [weights[name].float()]
    }
    complete = {name: parameters[id(tensor)] for name, tensor in expected.items()}
    model.load_state_dict(complete, assign=True)
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


def _once_each(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tied weights are one tensor with several names: keep the first name."""
    first = {id(tensor): name for name, tensor in reversed(state.items())}
    return {name: tensor for name, tensor in state.items() if first[id(tensor)] == name}


def _missing(folder: Path) -> str:
    if not folder.exists():
        return f"{folder} does not exist. Name a folder that glassformer train wrote."
    if folder.is_file():
        return f"{folder} is a file, not a model's folder."
    if (folder / "recipe.yaml").is_file():
        return f"{folder} holds a run that has not saved a model yet. Go on with --resume."
    inside = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}"))
    hint = f" Did you mean {folder / inside[0]}?" if inside else ""
    return f"{folder} holds no model: there is no {CONFIG} in it.{hint}"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise GlassformerError(f"{path} is damaged: {error}. Copy it again.") from None
    if not isinstance(values, dict):
        raise GlassformerError(f"{path} is damaged: it must hold one JSON object.")
    return values


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
