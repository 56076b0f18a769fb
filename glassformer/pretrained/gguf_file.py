"""GGUF, the format of llama.cpp: metadata and tensors, most of them quantised, in one file.

    "GGUF", version, number of tensors, number of keys
    key, type, value            again and again
    name, shape, type, offset   of each tensor
    the tensors

The file is memory-mapped. Every length is checked against the size of the file before anything is
allocated, and a tensor becomes float32 only when it is asked for (`gguf_types.py`).
"""

import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.pretrained.gguf_types import TYPES, TensorType

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_DIMENSIONS, MOST_NESTED = 4, 4
AT_ONCE = 2**22  # values that are decoded together: intermediate results stay small
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
            key = self._name()
            if key in self.metadata:
                raise self._damaged(f"it has the key {key!r} twice")
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
            values = np.empty((len(raw), place.type.values), np.float32)
            step = AT_ONCE // place.type.values
            for first in range(0, len(raw), step):
                found = values[first : first + step]
                with np.errstate(all="ignore"):  # of a damaged scale; noticed below
                    found[:] = place.type.decode(raw[first : first + step]).reshape(found.shape)
                if not np.isfinite(found).all():
                    raise self._damaged(f"{name} has values that are not finite")
            yield name, torch.from_numpy(values.reshape(place.shape))

    # --- the header ---

    def _damaged(self, why: str) -> GlassformerError:
        return GlassformerError(f"{self.path} is damaged or truncated: {why}. Download it again.")

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._place:
            raise self._damaged(f"{size:,} bytes are missing at byte {self._place:,}")
        content = self._data[self._place : self._place + size]
        self._place += size
        return content

    def _unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))

    def _check_count(self, number: int, least: int) -> None:
        """Refuse a number of things that cannot be in the file, before any memory is used."""
        if number * least > len(self._data) - self._place:
            raise self._damaged(f"its header counts {number:,} entries, which do not fit into it")

    def _string(self) -> str:
        (length,) = self._unpack("Q")
        return self._take(length).decode(errors="replace")

    def _name(self) -> str:
        """The name of a key or a tensor, which stands in messages."""
        name = self._string()
        if not name.isprintable():
            raise self._damaged(f"the name {name[:40]!r} is not text")
        return name

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
        name = self._name()
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
        if not isinstance(alignment, int) or isinstance(alignment, bool) or alignment < 1:
            raise self._damaged(f"its alignment is {alignment}")
        begin = -(-self._place // alignment) * alignment
        found: dict[str, TensorPlace] = {}
        for name, shape, kind, offset in listed:
            if name in found:
                raise self._damaged(f"it has the tensor {name} twice")
            if kind not in TYPES:
                known = ", ".join(each.name for each in TYPES.values())
                raise GlassformerError(
                    f"{self.path}: {name} is stored in the type number {kind}, which cannot be "
                    f"read. These can: {known}. Choose another quantisation of the model."
                )
            values, type = math.prod(shape), TYPES[kind]
            if not values or (shape or (1,))[-1] % type.values:
                raise self._damaged(f"{name} of the shape {shape} has no whole blocks")
            size = values // type.values * type.bytes
            if begin + offset + size > len(self._data):
                raise self._damaged(
                    f"{name} of the shape {shape} needs {size:,} bytes, more than there are"
                )
            found[name] = TensorPlace(shape, type, begin + offset, size)
        in_order = sorted(found.items(), key=lambda each: each[1].start)
        for (name, place), (other, after) in pairwise(in_order):
            if place.start + place.size > after.start:
                raise self._damaged(f"{name} and {other} are in the same place")
        return found
