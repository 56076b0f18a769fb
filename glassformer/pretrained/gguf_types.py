"""The types of tensors in GGUF files: how blocks of bytes become numbers, and numbers blocks.

A block of 32 values shares a scale d, and perhaps a smallest value m:

    Q8_0     d · q           q from -128 to 127
    Q4_0     d · (q - 8)     q from 0 to 15, two in a byte
    Q4_1     d · q + m
    Q5_0, Q5_1               the same with a fifth bit of each q beside the others
    IQ4_NL   d · table[q]    16 levels, closer together near zero

K-quants have blocks of 256 values in 8 or 16 groups. A group has a scale s and perhaps a minimum m,
themselves integers of few bits that the block scales by d and e:

    Q3_K, Q6_K            d · s · (q - offset)
    Q2_K, Q4_K, Q5_K      d · s · q - e · m
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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


# --- writing ---


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
