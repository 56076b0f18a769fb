"""GGUF, the format of llama.cpp: metadata and tensors, most of them quantised, in one file.

    "GGUF", version, number of tensors, number of keys
    key, type, value            again and again
    name, shape, type, offset   of each tensor
    the tensors

The file is memory-mapped. Every length is checked against the size of the file before anything is
allocated, and a tensor becomes float32 only when it is asked for.

This is a few hundred lines of numpy instead of llama.cpp's own package, which hangs on a damaged
file of 49 bytes; tests compare both byte by byte.
"""

import math
import mmap
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from glassformer.errors import GlassformerError

# --- the types of tensors: how blocks of bytes become numbers, and numbers blocks ---
#
# A block of 32 values shares a scale d, and perhaps a smallest value m:
#
#     Q8_0     d · q           q from -128 to 127
#     Q4_0     d · (q - 8)     q from 0 to 15, two in a byte
#     Q4_1     d · q + m
#     Q5_0, Q5_1               the same with a fifth bit of each q beside the others
#     IQ4_NL   d · table[q]    16 levels, closer together near zero
#
# K-quants have blocks of 256 values in 8 or 16 groups. A group has a scale s and perhaps a minimum
# m, themselves integers of few bits that the block scales by d and e:
#
#     Q3_K, Q6_K            d · s · (q - offset)
#     Q2_K, Q4_K, Q5_K      d · s · q - e · m

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[Any]
Encode = Callable[[Floats], bytes]

BLOCK, LARGE = 32, 256  # values
IQ4_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def _half(raw: Bytes) -> Floats:
    return raw.reshape(-1, 2).copy().view(np.float16).astype(np.float32)  # (N, 1)


def _bits(raw: Bytes, width: int) -> Bytes:
    """(N, …, M) bytes → (N, …, 8/width, M): their lowest bits, then the next ones, and so on."""
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    return (raw[..., None, :] >> shifts) & np.uint8(2**width - 1)


def _nibbles(raw: Bytes) -> Bytes:
    """(N, 16) bytes → (N, 32): all low halves, then all high halves."""
    return _bits(raw, 4).reshape(len(raw), BLOCK)


def _f32(raw: Bytes) -> Floats:
    return raw.reshape(-1).copy().view(np.float32)


def _bf16(raw: Bytes) -> Floats:
    return (raw.reshape(-1).copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _q8_0(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * raw[:, 2:].view(np.int8)


def _q4_0(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * (_nibbles(raw[:, 2:]).astype(np.float32) - 8)


def _q4_1(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * _nibbles(raw[:, 4:]) + _half(raw[:, 2:4])


def _five(high: Bytes, low: Bytes) -> Floats:
    """Values of five bits, (N, 32): the fifth is in the 32 bits of `high` (N, 4)."""
    fifth = np.unpackbits(high, axis=1, bitorder="little")
    return (_nibbles(low) | fifth << 4).astype(np.float32)


def _q5_0(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * (_five(raw[:, 2:6], raw[:, 6:]) - 16)


def _q5_1(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * _five(raw[:, 4:8], raw[:, 8:]) + _half(raw[:, 2:4])


def _iq4_nl(raw: Bytes) -> Floats:
    return _half(raw[:, :2]) * np.array(IQ4_NL, np.float32)[_nibbles(raw[:, 2:])]


# --- blocks of 256 values ---


def _by_group(scale: Floats, groups: Floats) -> Floats:
    """scale (N, 1) · groups (N, G) for each value, of which a group has 256 / G: (N, 256)."""
    return np.repeat(scale * groups, LARGE // groups.shape[1], axis=1)


def _q2_k(raw: Bytes) -> Floats:
    scales, low, (d, e) = raw[:, :16], raw[:, 16:80], _two_halves(raw[:, 80:84])
    values = _bits(low.reshape(-1, 2, 32), 2).reshape(-1, LARGE)
    return _by_group(d, _float(scales & 15)) * values - _by_group(e, _float(scales >> 4))


def _q3_k(raw: Bytes) -> Floats:
    high, low, packed, d = raw[:, :32], raw[:, 32:96], raw[:, 96:108], _half(raw[:, 108:110])
    few = _bits(packed[:, :8], 4).reshape(-1, 16)  # the four low bits of each scale
    many = _bits(packed[:, 8:], 2).reshape(-1, 16)  # the two high ones
    scales = _float(few | many << 4) - 32
    third = _bits(high, 1).reshape(-1, 2, 4, 32)
    values = _float(_bits(low.reshape(-1, 2, 32), 2) | third << 2) - 4  # (N, 2, 4, 32)
    return _by_group(d, scales) * values.reshape(-1, LARGE)


def _q4_k(raw: Bytes) -> Floats:
    (d, e), (scales, least) = _two_halves(raw[:, :4]), _six_bits(raw[:, 4:16])
    values = _bits(raw[:, 16:].reshape(-1, 4, 32), 4).reshape(-1, LARGE)
    return _by_group(d, scales) * values - _by_group(e, least)


def _q5_k(raw: Bytes) -> Floats:
    (d, e), (scales, least) = _two_halves(raw[:, :4]), _six_bits(raw[:, 4:16])
    fifth = _bits(raw[:, 16:48], 1).reshape(-1, 4, 2, 32)
    values = _bits(raw[:, 48:].reshape(-1, 4, 32), 4) | fifth << 4  # (N, 4, 2, 32)
    return _by_group(d, scales) * values.reshape(-1, LARGE) - _by_group(e, least)


def _q6_k(raw: Bytes) -> Floats:
    low = _bits(raw[:, :128].reshape(-1, 2, 64), 4).reshape(-1, 2, 4, 32)
    high = _bits(raw[:, 128:192].reshape(-1, 2, 32), 2)  # (N, 2, 4, 32)
    scales = raw[:, 192:208].view(np.int8).astype(np.float32)
    values = _float(low | high << 4) - 32  # (N, 2, 4, 32)
    return _by_group(_half(raw[:, 208:210]), scales) * values.reshape(-1, LARGE)


def _float(x: Numbers) -> Floats:
    return x.astype(np.float32)


def _two_halves(raw: Bytes) -> tuple[Floats, Floats]:
    return _half(raw[:, :2]), _half(raw[:, 2:])


def _six_bits(raw: Bytes) -> tuple[Floats, Floats]:
    """Eight scales and eight minima of six bits each, in twelve bytes: (N, 8) and (N, 8)."""
    first, second, last = raw[:, :4], raw[:, 4:8], raw[:, 8:]
    scales = np.concatenate([first & 63, (last & 15) | (first >> 6) << 4], axis=1)
    least = np.concatenate([second & 63, (last >> 4) | (second >> 6) << 4], axis=1)
    return _float(scales), _float(least)


# --- from numbers to blocks ---


def _to_f32(x: Floats) -> bytes:
    return x.astype("<f4").tobytes()


def _to_f16(x: Floats) -> bytes:
    return x.astype("<f2").tobytes()


def _to_q8_0(x: Floats) -> bytes:
    blocks = x.reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127  # (N, 1)
    q = np.rint(blocks / np.where(scale, scale, 1)).astype(np.int8)  # (N, 32)
    return np.concatenate([scale.astype("<f2").view(np.uint8), q.view(np.uint8)], axis=1).tobytes()


class TensorType(NamedTuple):
    """How values are stored: `bytes` bytes for each block of `values` values."""

    name: str
    values: int
    bytes: int
    decode: Callable[[Bytes], Floats]
    """(N, bytes) → N · values numbers."""
    encode: Encode | None = None
    """None: it is read, but not written."""


TYPES = {
    0: TensorType("F32", 1, 4, _f32, _to_f32),
    1: TensorType("F16", 1, 2, _half, _to_f16),
    2: TensorType("Q4_0", BLOCK, 18, _q4_0),
    3: TensorType("Q4_1", BLOCK, 20, _q4_1),
    6: TensorType("Q5_0", BLOCK, 22, _q5_0),
    7: TensorType("Q5_1", BLOCK, 24, _q5_1),
    8: TensorType("Q8_0", BLOCK, 34, _q8_0, _to_q8_0),
    10: TensorType("Q2_K", LARGE, 84, _q2_k),
    11: TensorType("Q3_K", LARGE, 110, _q3_k),
    12: TensorType("Q4_K", LARGE, 144, _q4_k),
    13: TensorType("Q5_K", LARGE, 176, _q5_k),
    14: TensorType("Q6_K", LARGE, 210, _q6_k),
    20: TensorType("IQ4_NL", BLOCK, 18, _iq4_nl),
    30: TensorType("BF16", 1, 2, _bf16),
}
NUMBERS = {type.name: number for number, type in TYPES.items()}


# --- reading ---

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
class StoredTensor:
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
        self._at = 0
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
        self.shapes = {name: stored.shape for name, stored in self.tensors.items()}

    def read(self, names: list[str]) -> Iterator[tuple[str, Tensor]]:
        """Each tensor with its name, in float32."""
        whole = np.frombuffer(self._data, np.uint8)
        for name in names:
            stored = self.tensors[name]
            raw = whole[stored.start : stored.start + stored.size].reshape(-1, stored.type.bytes)
            values = np.empty((len(raw), stored.type.values), np.float32)
            step = AT_ONCE // stored.type.values
            for first in range(0, len(raw), step):
                part = values[first : first + step]
                with np.errstate(all="ignore"):  # of a damaged scale; noticed below
                    part[:] = stored.type.decode(raw[first : first + step]).reshape(part.shape)
                if not np.isfinite(part).all():
                    raise self._damaged(f"{name} has values that are not finite")
            yield name, torch.from_numpy(values.reshape(stored.shape))

    # --- the header ---

    def _damaged(self, why: str) -> GlassformerError:
        return GlassformerError(f"{self.path} is damaged or truncated: {why}. Download it again.")

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise self._damaged(f"{size:,} bytes are missing at byte {self._at:,}")
        content = self._data[self._at : self._at + size]
        self._at += size
        return content

    def _unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))

    def _check_count(self, number: int, least: int) -> None:
        """Refuse a number of things that cannot be in the file, before any memory is used."""
        if number * least > len(self._data) - self._at:
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
    ) -> dict[str, StoredTensor]:
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or isinstance(alignment, bool) or alignment < 1:
            raise self._damaged(f"its alignment is {alignment}")
        begin = -(-self._at // alignment) * alignment
        tensors: dict[str, StoredTensor] = {}
        for name, shape, kind, offset in listed:
            if name in tensors:
                raise self._damaged(f"it has the tensor {name} twice")
            if kind not in TYPES:
                readable = ", ".join(type.name for type in TYPES.values())
                raise GlassformerError(
                    f"{self.path}: {name} is stored in the type number {kind}, which cannot be "
                    f"read. These can: {readable}. Choose another quantisation of the model."
                )
            values, type = math.prod(shape), TYPES[kind]
            if not values or (shape or (1,))[-1] % type.values:
                raise self._damaged(f"{name} of the shape {shape} has no whole blocks")
            size = values // type.values * type.bytes
            if begin + offset + size > len(self._data):
                raise self._damaged(
                    f"{name} of the shape {shape} needs {size:,} bytes, more than there are"
                )
            tensors[name] = StoredTensor(shape, type, begin + offset, size)
        in_order = sorted(tensors.items(), key=lambda item: item[1].start)
        for (name, stored), (other, after) in pairwise(in_order):
            if stored.start + stored.size > after.start:
                raise self._damaged(f"{name} and {other} are in the same place")
        return tensors


# --- writing ---
#
# Types follow from the values: bool, int (32 bits without sign), float (32 bits), string, and lists
# of strings or of integers with sign.

VERSION, ALIGNMENT = 3, 32
BOOL, UNSIGNED, SIGNED, FLOAT = 7, 4, 5, 6


def write_file(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, tuple[Floats, str]]
) -> None:
    """Each tensor with the name of its type, whose blocks its last dimension must fill."""
    head = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    head += [part for key, value in metadata.items() for part in (_string(key), _typed(value))]
    offset = 0
    for name, (array, kind) in tensors.items():
        type = TYPES[NUMBERS[kind]]
        shape = array.shape[::-1]  # the first varies fastest
        head.append(_string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        head.append(struct.pack("<IQ", NUMBERS[kind], offset))
        offset += _aligned(array.size // type.values * type.bytes)
    with path.open("wb") as file:
        file.write(_padded(b"".join(head)))
        for array, kind in tensors.values():
            file.write(_padded(_encoder(kind)(np.ascontiguousarray(array))))


def _encoder(kind: str) -> Encode:
    encode = TYPES[NUMBERS[kind]].encode
    if encode is None:
        raise ValueError(f"{kind} cannot be written")
    return encode


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padded(content: bytes) -> bytes:
    return content.ljust(_aligned(len(content)), b"\0")


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _typed(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", BOOL, value)
        case int():
            return struct.pack("<II", UNSIGNED, value)
        case float():
            return struct.pack("<If", FLOAT, value)
        case str():
            return struct.pack("<I", STRING) + _string(value)
        case [int(), *_]:
            return struct.pack(f"<IIQ{len(value)}i", ARRAY, SIGNED, len(value), *value)
        case _:
            head = struct.pack("<IIQ", ARRAY, STRING, len(value))
            return head + b"".join(map(_string, value))
