"""Reading a safetensors file tensor by tensor, each into memory of its own.

The safetensors library checks the header and maps the whole file, whose pages would count as memory
of the process beside the copies that are made of them. So only the header is left to it: offsets
and sizes that it accepted are read here.
"""

import json
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.wording import cause

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
    """Says what is wrong with a safetensors file in one sentence."""
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
