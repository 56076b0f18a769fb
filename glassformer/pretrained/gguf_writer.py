"""Writing a GGUF file: the counterpart of `gguf_file.py`.

Types follow from the values: bool, int (32 bits without sign), float (32 bits), string, and lists
of strings or of integers with sign.
"""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.pretrained.gguf_file import ARRAY, MAGIC, STRING
from glassformer.pretrained.gguf_types import NUMBERS, TYPES, Encode, Floats

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
