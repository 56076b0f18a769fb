"""GGUF, the format of llama.cpp: metadata and tensors, most of them quantised, in one file.

    "GGUF", version, number of tensors, number of keys
    key, type, value            again and again
    name, shape, type, offset   of each tensor
    the tensors

The file is memory-mapped. Every length is checked against the size of the file before anything is
allocated, and a tensor becomes float32 only when it is asked for. Quantised tensors are blocks of
32 values that share a scale d (and a smallest value m):

    Q8_0    d · q          q from -128 to 127
    Q4_0    d · (q - 8)    q from 0 to 15, two in a byte
    Q4_1    d · q + m
"""

import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.errors import GlassformerError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_DIMENSIONS, MOST_NESTED = 4, 4
BLOCK = 32
STRING, ARRAY = 8, 9
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def _half(raw: Bytes) -> Floats:
    return raw.reshape(-1, 2).copy().view(np.float16).astype(np.float32)  # (N, 1)


def _nibbles(raw: Bytes) -> Floats:
    """(N, 16) bytes → (N, 32): all low halves, then all high halves."""
    return np.concatenate([raw & 15, raw >> 4], axis=1).astype(np.float32)


def _f32(raw: Bytes) -> Floats:
    return raw.reshape(-1).view(np.float32)


def _f16(raw: Bytes) -> Floats:
    return raw.reshape(-1).view(np.float16).astype(np.float32)


def _bf16(raw: Bytes) -> Floats:
    return (raw.reshape(-1).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _q8_0(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * raw[:, 2:].view(np.int8).astype(np.float32)


def _q4_0(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * (_nibbles(raw[:, 2:]) - 8)


def _q4_1(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * _nibbles(raw[:, 4:]) + _half(raw[:, 2:4])


class TensorType(NamedTuple):
    """How values are stored: `bytes` bytes for each block of `values` values."""

    name: str
    values: int
    bytes: int
    decode: Callable[[Bytes], Floats]


TYPES = {
    0: TensorType("F32", 1, 4, _f32),
    1: TensorType("F16", 1, 2, _f16),
    2: TensorType("Q4_0", BLOCK, 18, _q4_0),
    3: TensorType("Q4_1", BLOCK, 20, _q4_1),
    8: TensorType("Q8_0", BLOCK, 34, _q8_0),
    30: TensorType("BF16", 1, 2, _bf16),
}


@dataclass(frozen=True)
class TensorPlace:
    """Where a tensor is, and what it is."""

    shape: tuple[int, ...]
    type: TensorType
    start: int
    size: int


class GGUFFile:
    """The metadata and the tensors of a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise GlassformerError(f"{path} is empty.") from None
        self._place = 0
        if self._take(4) != MAGIC:
            raise self._damaged("it does not begin with GGUF")
        (version,) = self._unpack("I")
        if version not in VERSIONS:
            raise GlassformerError(f"{path} has version {version} of GGUF. 2 and 3 can be read.")
        tensors, keys = self._unpack("QQ")
        self.metadata: dict[str, Any] = {}
        self._check_count(keys, 12)
        for _ in range(keys):
            key = self._string()
            (kind,) = self._unpack("I")
            self.metadata[key] = self._value(kind)
        self._check_count(tensors, 24)
        self.tensors = self._places([self._listed() for _ in range(tensors)])
        self.shapes = {name: place.shape for name, place in self.tensors.items()}

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]:
        """Each tensor with its name, in float32."""
        whole = np.frombuffer(self._data, np.uint8)
        for name in names:
            place = self.tensors[name]
            raw = whole[place.start : place.start + place.size].reshape(-1, place.type.bytes)
            values = np.array(place.type.decode(raw), np.float32).reshape(place.shape)
            yield name, torch.from_numpy(values)

    # --- the header ---

    def _damaged(self, why: str) -> GlassformerError:
        return GlassformerError(f"{self.path} is damaged or truncated: {why}. Download it again.")

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._place:
            raise self._damaged(f"{size:,} bytes are missing at byte {self._place:,}")
        found = self._data[self._place : self._place + size]
        self._place += size
        return found

    def _unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))

    def _check_count(self, number: int, least: int) -> None:
        """Refuse a number of things that cannot be in the file, before any memory is used."""
        if number * least > len(self._data) - self._place:
            raise self._damaged(f"its header counts {number:,} entries, which do not fit into it")

    def _string(self) -> str:
        (length,) = self._unpack("Q")
        return self._take(length).decode(errors="replace")

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind == STRING:
            return self._string()
        if kind in SCALARS:
            return self._unpack(SCALARS[kind])[0]
        if kind != ARRAY or depth > MOST_NESTED:
            raise self._damaged(f"a value has the unknown type {kind}")
        inner, number = self._unpack("IQ")
        if inner in SCALARS:
            self._check_count(number, struct.calcsize(SCALARS[inner]))
            return list(self._unpack(f"{number}{SCALARS[inner]}"))
        self._check_count(number, 8)
        return [self._value(inner, depth + 1) for _ in range(number)]

    def _listed(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        (dimensions,) = self._unpack("I")
        if dimensions > MOST_DIMENSIONS:
            raise self._damaged(f"{name} has {dimensions} dimensions")
        shape = self._unpack(f"{dimensions}Q")
        kind, offset = self._unpack("IQ")
        return name, tuple(reversed(shape)), kind, offset  # the last varies fastest, as in torch

    def _places(
        self, listed: list[tuple[str, tuple[int, ...], int, int]]
    ) -> dict[str, TensorPlace]:
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._damaged(f"its alignment is {alignment}")
        begin = -(-self._place // alignment) * alignment
        found = {}
        for name, shape, kind, offset in listed:
            if kind not in TYPES:
                known = ", ".join(each.name for each in TYPES.values())
                raise GlassformerError(
                    f"{self.path}: {name} is stored in the type number {kind}, which cannot be "
                    f"read. These can: {known}. Choose another quantisation of the model."
                )
            values = 1
            for side in shape:
                values *= side
            type = TYPES[kind]
            if shape and shape[-1] % type.values:
                raise self._damaged(f"{name} of the shape {shape} has no whole blocks")
            size = values // type.values * type.bytes
            if begin + offset + size > len(self._data):
                raise self._damaged(
                    f"{name} of the shape {shape} needs {size:,} bytes, more than there are"
                )
            found[name] = TensorPlace(shape, type, begin + offset, size)
        return found
