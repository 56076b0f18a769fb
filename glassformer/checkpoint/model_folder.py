"""A model in one folder, with everything that is needed to use it.

    config.json                which model, its shape and its labels
    model.safetensors          its weights, in float32; those of quantised layers in int8
    preprocessor_config.json   how the user's data becomes its input
    tokenizer.json             its vocabulary, if it reads text
    target_tokenizer.json      the vocabulary of its translations, if they have their own
    generation_config.json     defaults for generation, written by the user
    README.md                  the model card
    lora.safetensors           what LoRA has learned, if it was used

Nothing in it is pickle, nothing names code to import, and equal models give equal bytes: there are
no dates and no paths. The weights carry checksums of themselves and of the files beside them, by
which later damage is detected.
"""

import hashlib
import json
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.checkpoint.model_names import CONFIG, is_run, no_model
from glassformer.config import Config, parse
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import file_digest, read_json, write_file, write_json
from glassformer.models import MODELS, name_of, row
from glassformer.nn.int8 import QuantizedLinear, quantizable, quantize
from glassformer.nn.lora import lora_scale
from glassformer.preprocessing import SETTINGS, Preprocessing, kinds, load_preprocessing
from glassformer.wording import cause

WEIGHTS = "model.safetensors"
GENERATION = "generation_config.json"
CARD = "README.md"
LORA = "lora.safetensors"
LARGEST_TEXT = 2**28  # bytes: the largest tokenizers have some 2**25
DIGEST = "sha256"  # in the metadata of the weights, beside those of the other files
# Keys that transformers writes into every config.json, and glassformer into none.
SIGNS = ("architectures", "transformers_version", "auto_map", "torch_dtype", "dtype")


def file_names() -> set[str]:
    """Every file that a model folder may contain."""
    beside = {name for kind in kinds().values() for name in kind.file_names()}
    return {CONFIG, WEIGHTS, GENERATION, CARD, LORA} | beside


@dataclass(frozen=True)
class Saved:
    """The content of a model folder."""

    name: str
    model: nn.Module
    preprocessing: Preprocessing
    generation: dict[str, Any]
    folder: Path | None = None
    """Where it was read; None: converted from another format."""


def save_model(
    folder: Path,
    model: nn.Module,
    preprocessing: Preprocessing,
    card: str = "",
    lora: bytes | None = None,
) -> None:
    """Write the folder. The weights are written last and replaced in one step: a model that is
    still in training can be used at any moment. `lora` is the file of that name."""
    config = model.config
    if not isinstance(config, Config):
        raise TypeError(f"{type(model).__name__} has no config")
    write_json(folder / CONFIG, {"model_type": name_of(model), **config.model_dump(mode="json")})
    beside = [CONFIG, *preprocessing.save(folder)]
    if card:
        write_file(folder / CARD, card)
    if lora is not None:
        write_file(folder / LORA, lora)
        beside.append(LORA)
    digests = {name: file_digest(folder / name) for name in beside}
    write_file(folder / WEIGHTS, weights_file(model, digests))


def weights_file(model: nn.Module, metadata: dict[str, str] | None = None) -> bytes:
    """The weights of a model as a safetensors file, with a checksum of themselves."""
    state = distinct(model.state_dict(keep_vars=True))
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    about = {"format": "pt", DIGEST: _digest(weights)} | (metadata or {})
    return in_order(save(weights, metadata=about))


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
    return Saved(name, model.eval(), preprocessing, load_generation(folder), folder)


def load_generation(folder: Path) -> dict[str, Any]:
    """The defaults of generation, if the folder has any."""
    return read_json(folder / GENERATION) if (folder / GENERATION).is_file() else {}


def without_memory(name: str, config: Config) -> nn.Module:
    """A model of shapes only, whose weights come from a file: see `fill`."""
    with torch.device("meta"), _Uninitialized():
        return row(name).model(config)


def fill(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Give a model without memory its weights, each by its first name."""
    expected = model.state_dict(keep_vars=True)
    parameters = {
        id(empty): nn.Parameter(weights[name]) if isinstance(empty, nn.Parameter) else weights[name]
        for name, empty in distinct(expected).items()
    }
    complete = {name: parameters[id(tensor)] for name, tensor in expected.items()}
    model.load_state_dict(complete, assign=True)


def is_ours(folder: Path) -> bool:
    """Whether the config.json of a folder is one of ours."""
    path = folder / CONFIG
    if not path.is_file() or path.stat().st_size > LARGEST_TEXT:
        return False
    values = read_json(path)
    return str(values.get("model_type")) in MODELS and not any(sign in values for sign in SIGNS)


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
        if name not in (WEIGHTS, LORA) and path.exists() and path.stat().st_size > LARGEST_TEXT:
            raise GlassformerError(f"{path} is far too large for a file of this name.")


class _Uninitialized(TorchFunctionMode):
    """Skips initialisation: without memory it has no effect, and it would import torch.compile."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == nn.init.__name__:
            return (*args, *(kwargs or {}).values())[0]
        return func(*args, **(kwargs or {}))


def _load_weights(model: nn.Module, path: Path) -> dict[str, str]:
    """Fill the model. Returns the metadata of the file."""
    missing = "training has not saved a model yet, or it was deleted"
    with reading_safetensors(path, f"{path} does not exist: {missing}."):
        file = SafetensorsFile(path)
        _quantize_as_in(file, model)
        stored_once = distinct(model.state_dict(keep_vars=True))
        for name, tensor in stored_once.items():
            if file.shapes.get(name) != tuple(tensor.shape):
                shape = f"has shape {file.shapes[name]}" if name in file.shapes else "is missing"
                what = f"{name} {shape}; {CONFIG} expects {tuple(tensor.shape)}"
                raise GlassformerError(f"{path}: {what}. Copy both files from the same model.")
        if extra := sorted(file.shapes.keys() - stored_once.keys()):
            what = f"{extra[0]} is not part of the model in {CONFIG}"
            raise GlassformerError(f"{path}: {what}. Copy both files from the same model.")
        digest, weights = hashlib.sha256(), dict[str, Tensor]()
        for name, tensor in file.read(sorted(stored_once)):
            _add_to_digest(digest, name, tensor)
            # int8, or float32: other types are a choice of speed, made by the runtime.
            weights[name] = tensor.to(stored_once[name].dtype)
    if file.metadata.get(DIGEST, digest.hexdigest()) != digest.hexdigest():
        raise GlassformerError(f"{path} is damaged: it differs from what was saved. Copy it again.")
    fill(model, weights)
    _check_scales(model, path)
    return file.metadata


def _quantize_as_in(file: "SafetensorsFile", model: nn.Module) -> None:
    """Give a model without memory the quantised layers that a file has weights for."""
    int8 = {name for name, kind in file.types.items() if kind == "I8"}
    if not int8:
        return
    layers = {f"{name}.weight": name for name, *_ in quantizable(model)}
    if unknown := sorted(int8 - layers.keys()):
        raise GlassformerError(
            f"{file.path}: {unknown[0]} has the type int8, but is not the weight of a layer that "
            "can be quantised. Export the model again."
        )
    quantize(model, {layers[name] for name in int8})


def _check_scales(model: nn.Module, path: Path) -> None:
    for name, layer in model.named_modules():
        if not isinstance(layer, QuantizedLinear):
            continue
        if not (layer.scale.isfinite() & (layer.scale > 0)).all():
            raise GlassformerError(
                f"{path}: {name}.scale has values that are not positive numbers. Export the model "
                "again."
            )


def _digest(weights: dict[str, Tensor]) -> str:
    """SHA-256 of the weights with their names, types and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        _add_to_digest(digest, name, tensor)
    return digest.hexdigest()


def _add_to_digest(digest: Any, name: str, tensor: Tensor) -> None:
    digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
    digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)


def in_order(file: bytes) -> bytes:
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
        return no_model(folder)
    if folder.is_file() and folder.suffix == ".zip":
        return f"{folder} is an archive, not a model folder. Unpack it, and pass the folder in it."
    if folder.is_file():
        return f"{folder} is a file, not a model folder."
    if (folder / WEIGHTS).is_file():
        return f"{folder / CONFIG} does not exist. Copy the whole model folder."
    if is_run(folder):
        return f"{folder} is a run that has not saved a model yet. Continue it with --resume."
    inside = sorted(path.parent.name for path in folder.glob(f"*/{CONFIG}"))
    hint = f" Did you mean {folder / inside[0]}?" if inside else ""
    return f"{folder} does not contain a model: there is no {CONFIG} in it.{hint}"


# --- what LoRA has learned ---
# Two thin matrices for each layer, in a file beside the merged model.
#
#     encoder.blocks.0.attention.query.A        (rank, in)
#     encoder.blocks.0.attention.query.B        (out, rank)
#
# The model folder is complete without it; it is what an adapter is written from.


@dataclass(frozen=True)
class LoRAUpdate:
    """The updates of some layers of a model."""

    base: str
    """The model that was fine-tuned: a folder, a file or a name of the hub."""
    rank: int
    alpha: float
    dropout: float
    use_rslora: bool
    factors: dict[str, tuple[Tensor, Tensor]]
    """A and B of each layer, by name."""

    @property
    def scale(self) -> float:
        return lora_scale(self.rank, self.alpha, self.use_rslora)

    def file(self) -> bytes:
        tensors = dict[str, Tensor]()
        for name, (a, b) in self.factors.items():
            tensors |= {f"{name}.A": a, f"{name}.B": b}
        about = {
            "base": self.base,
            "rank": str(self.rank),
            "alpha": repr(self.alpha),
            "dropout": repr(self.dropout),
            "use_rslora": str(self.use_rslora).lower(),
        }
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        return in_order(save(weights, metadata={"format": "pt"} | about))


def load_lora(folder: Path) -> LoRAUpdate:
    """The updates beside the model in a folder."""
    path = folder / LORA
    missing = f"{folder} was not trained with LoRA: there is no {LORA} in it. Train it with --lora."
    with reading_safetensors(path, missing):
        file = SafetensorsFile(path)
        about, tensors = file.metadata, dict(file.read([*file.shapes]))
    try:
        names = sorted({name.rsplit(".", 1)[0] for name in tensors})
        return LoRAUpdate(
            base=about["base"],
            rank=int(about["rank"]),
            alpha=float(about["alpha"]),
            dropout=float(about["dropout"]),
            use_rslora=about["use_rslora"] == "true",
            factors={name: (tensors[f"{name}.A"], tensors[f"{name}.B"]) for name in names},
        )
    except (KeyError, ValueError):
        raise GlassformerError(f"{path} is damaged. Copy it again.") from None


# --- snapshots ---
#     snapshots/step-0.safetensors       before the first step of a training
#     snapshots/step-1.safetensors …     after some of the others
#
# They contain nothing but weights, to look at how a model learned: training continues from
# checkpoints, never from these. Checkpoints are no snapshots: only two of them are kept, and they
# are several times as large.

SNAPSHOTS = "snapshots"  # in a run's folder
SNAPSHOT = re.compile(r"step-(\d+)\.safetensors")


def save_snapshot(run: Path, step: int, model: nn.Module) -> None:
    """Write the weights of a model, whole or not at all."""
    write_file(run / SNAPSHOTS / f"step-{step}.safetensors", weights_file(model))


def snapshots_of(run: Path) -> list[tuple[int, Path]]:
    """(step, file), oldest first."""
    folder = run / SNAPSHOTS
    files = folder.iterdir() if folder.is_dir() else ()
    matches = [(SNAPSHOT.fullmatch(file.name), file) for file in files]
    return sorted((int(match[1]), file) for match, file in matches if match)


def forget_snapshots(run: Path, after: int) -> None:
    """Delete the snapshots of later steps, and what a kill has left half-written."""
    for step, file in snapshots_of(run):
        if step > after:
            file.unlink()
    for left_by_a_kill in (run / SNAPSHOTS).glob(".step-*"):
        left_by_a_kill.unlink()


def load_snapshot(run: Path, file: Path) -> nn.Module:
    """The model of a run with the weights of a snapshot."""
    try:
        return load_model(run, file).model
    except GlassformerError as error:
        raise GlassformerError(
            f"{error} Or delete it: the other snapshots are shown without it."
        ) from None


# --- safetensors files ---
# A file is read tensor by tensor, each into memory of its own. The safetensors library checks the
# header and maps the whole file, whose pages would count as memory of the process beside the copies
# that are made of them. So only the header is left to it: offsets and sizes that it accepted are
# read here, and loading a model takes little more memory than its weights.

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

OWN_PAGES = 2**20  # bytes


@contextmanager
def reading_safetensors(path: Path, if_missing: str) -> Iterator[None]:
    """Report what is wrong with a safetensors file in one sentence."""
    try:
        yield
    except FileNotFoundError:
        raise GlassformerError(if_missing) from None
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
    except SafetensorError as error:
        raise GlassformerError(
            f"{path} is not a safetensors file, or is damaged: {cause(error)}. Copy it again."
        ) from None


class SafetensorsFile:
    """The shapes, types and metadata of a file; its tensors are read when asked for."""

    def __init__(self, path: Path) -> None:
        with safe_open(path, framework="pt") as file:  # checks every offset against the file
            self.shapes = {
                name: tuple(file.get_slice(name).get_shape())
                for name in file.keys()  # noqa: SIM118
            }
            self.metadata: dict[str, str] = file.metadata() or {}
        self.path = path
        with path.open("rb") as raw:
            self._data = 8 + int.from_bytes(raw.read(8), "little")
            header = json.loads(raw.read(self._data - 8))
        self._starts = {name: header[name]["data_offsets"][0] for name in self.shapes}
        self.types: dict[str, str] = {name: header[name]["dtype"] for name in self.shapes}

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]:
        """Each tensor with its name, as it is stored."""
        with self.path.open("rb", buffering=0) as file:
            for name in names:
                if self.types[name] not in TYPES:
                    raise GlassformerError(
                        f"{self.path}: {name} has the type {self.types[name]}, which cannot be "
                        "read."
                    )
                tensor = _empty(self.shapes[name], TYPES[self.types[name]])
                file.seek(self._data + self._starts[name])
                left = tensor.reshape(-1).view(torch.uint8).numpy().data
                while left:
                    if not (count := file.readinto(left)):
                        raise GlassformerError(f"{self.path} is truncated. Copy it again.")
                    left = left[count:]
                yield name, tensor


def _empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Memory of its own pages, which go back to the system when freed. Tensors that are only read
    to be split or transposed would leave holes between those that stay."""
    size = prod(shape) * dtype.itemsize
    if size < OWN_PAGES:
        return torch.empty(shape, dtype=dtype)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {}
    return torch.frombuffer(mmap.mmap(-1, size, **private), dtype=dtype).view(shape)


# --- folders that a model may be written to: those whose loss nobody would regret ---

# What our folders and those of Hugging Face, onnxruntime, CTranslate2, llama.cpp and peft hold. A
# name that is missing here costs another --out; one too many could cost somebody's file.
FILES = (
    "README.md",
    "LICENSE*",
    ".gitattributes",
    ".DS_Store",
    "config.json",
    "*_config.json",
    "config_*.json",
    "modules.json",
    "chat_template.*",
    "model.safetensors",
    "model-*.safetensors",
    "adapter_model.safetensors",
    "*.index.json",
    "model.bin",
    "model.gguf",
    "adapter_model.bin",
    "pytorch_model*.bin",
    "tf_model.h5",
    "flax_model.msgpack",
    "rust_model.ot",
    "encoder.onnx",
    "decoder.onnx",
    "*model*.onnx",
    "*model*.onnx_data",
    "*model*.onnx.data",
    "tokenizer.*",
    "vocab.*",
    "target_vocab.json",
    "merges.txt",
    "*vocabulary.*",
    "special_tokens_map.json",
    "added_tokens.json",
    "source.spm",
    "target.spm",
    "spiece.model",
    "sentencepiece.bpe.model",
)
FOLDERS = ("[0-9]_*", "onnx")  # modules of sentence-transformers, such as 1_Pooling; graphs
SHOWN = 3


def check_replaceable(folder: Path, force: bool, *sources: Path, sign: str = CONFIG) -> None:
    """Refuse a folder to write a model to, unless it is empty or, with `force`, a model's alone,
    which is recognised by the file `sign`. What is read from `sources` is never replaced."""
    if folder.is_file():
        raise UsageError(f"{folder} is a file. Choose another --out.")
    for source in sources:
        check_kept(folder, source)
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if is_run(folder):
        raise GlassformerError(f"{folder} contains a run. Choose another --out.")
    others = sorted(_others(folder))
    if others or not (folder / sign).is_file():
        names = others or sorted(entry.name for entry in folder.iterdir())
        shown = ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
        raise GlassformerError(f"{folder} contains other files ({shown}). Choose another --out.")
    if not force:
        raise GlassformerError(
            f"{folder} already contains a model. Use --force to replace it, or choose another "
            "--out."
        )


def _others(folder: Path) -> Iterator[str]:
    """The names in a folder that are not a model's."""
    names = (*FILES, *file_names())
    for entry in folder.iterdir():
        if not entry.is_dir():
            if not _matches(entry.name, names):
                yield entry.name
        elif not _matches(entry.name, FOLDERS):
            yield f"{entry.name}/"
        else:
            yield from (f"{entry.name}/{name}" for name in _others(entry))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_kept(folder: Path, source: Path) -> None:
    """Refuse a folder to replace, if what is read from `source` would go with it."""
    out = folder.resolve()
    # A link is lost with the folder around it, and what it leads to with the folder around that.
    for path in (source.resolve(), source.parent.resolve() / source.name):
        if path.is_relative_to(out):
            relation = "is" if path == out else "contains"
            raise UsageError(f"{folder} {relation} the source ({source}). Choose another --out.")
