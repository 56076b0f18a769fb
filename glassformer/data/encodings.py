"""How the bytes of a file become text: decided for each file by itself.

1. A byte order mark of UTF-8, UTF-16 or UTF-32 decides.
2. A file that is valid UTF-8 is read as UTF-8.
3. Any other file is read in the encoding that was passed, if one was.
4. A file of UTF-8 with a few other bytes is read as UTF-8, and these bytes as windows-1252.
5. Else the encoding is detected (`encoding_detection.py`; UTF-16 without a mark, too), or the file
   is refused.

The decision needs a pass over the bytes, in bounded memory, and is remembered.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, NamedTuple

from glassformer.data.encoding_detection import likely_encodings, unmarked_utf16
from glassformer.errors import GlassformerError

UTF8 = "utf-8"
_AT_ONCE = 2**20  # bytes that are read together
_HEAD = 2**16  # bytes in which binary files are recognised
_SAMPLE, _NEAR = 2**16, 2**11  # bytes to detect an encoding from; of each place
_MARKS = (  # that of UTF-16 is the beginning of that of UTF-32
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# All bytes of these are ASCII, so that a text is valid UTF-8, too.
_SEVEN_BIT = ("utf-7", "hz", "iso2022")
_BINARY = bytes({*range(32), 127} - {*b"\t\n\v\f\r\b\x1b\x1a"})  # not in texts
_LEADS = bytes(range(0xC0, 0x100))  # first bytes of characters
_INVALID, _VALID = re.compile("[\udc80-\udcff]+"), re.compile("[^\\x00-\\x7f\udc80-\udcff]+")
STRAY = "stray-windows-1252"  # how errors in UTF-8 are handled

Open = Callable[[], AbstractContextManager[BinaryIO]]


class NotTextError(GlassformerError):
    """A file is binary, or in an encoding that is not recognised."""


class Decoding(NamedTuple):
    """A codec, and how it handles errors."""

    codec: str
    errors: str = "strict"
    described: str | None = None
    """For a note, if the file is not in UTF-8 and the encoding was not passed."""


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are not text in any encoding."""
    head = head[:_HEAD]
    if any(head.startswith(mark) for mark, _ in _MARKS):
        return False
    if head.startswith(b"%PDF-"):
        return True
    if b"\0" in head:
        return unmarked_utf16(head) is None
    return 50 * len(head.translate(None, _BINARY)) < 49 * len(head)


def decide(open_bytes: Open, codec: str, name: str) -> Decoding:
    """How to decode a file; `codec` is the one that was passed, or UTF-8."""
    with open_bytes() as raw:
        head = raw.read(4)
    for mark, marked in _MARKS:
        if head.startswith(mark) and _is_valid(open_bytes, marked):
            return Decoding(marked)
    is_given = codec not in (UTF8, "utf-8-sig")
    if is_given and codec.startswith(_SEVEN_BIT):
        return Decoding(codec)
    faults = _faults(open_bytes)
    if faults.is_utf8 and not faults.has_nul:
        return Decoding(UTF8)
    if is_given:
        return Decoding(codec)
    if faults.has_nul and (unmarked := _unmarked(open_bytes)):
        return Decoding(unmarked, described=unmarked)
    if faults.is_utf8:  # with a zero byte, whose line is named later
        return Decoding(UTF8)
    if faults.has_nul:
        raise NotTextError(f"{name} is a binary file, not text. Pass a text file or a table.")
    if faults.num_valid > faults.num_invalid:
        return Decoding(UTF8, STRAY, "UTF-8 with stray bytes of windows-1252")
    for likely in likely_encodings(bytes(faults.sample)):
        if _is_valid(open_bytes, likely):
            return Decoding(likely, described=likely)
    raise NotTextError(
        f"{name}, byte {faults.first:,}: invalid UTF-8 (0x{faults.first_byte:02X}), and no other "
        "encoding fits. Save it as UTF-8, or pass the --encoding it was saved in."
    )


@dataclass(slots=True)
class _Faults:
    """What a pass over the bytes found that is not UTF-8."""

    num_valid: int = 0
    """Characters beyond ASCII."""
    num_invalid: int = 0
    first: int = 0
    first_byte: int = 0
    sample: bytearray = field(default_factory=bytearray)
    """Lines with bytes that are not ASCII."""
    has_nul: bool = False

    @property
    def is_utf8(self) -> bool:
        return not self.num_invalid


def _faults(open_bytes: Open) -> _Faults:
    found = _Faults()
    rest, place = b"", 0
    with open_bytes() as raw:
        for block, is_last in _blocks(raw):
            block = rest + block
            found.has_nul = found.has_nul or b"\0" in block
            # A character may reach across the end of a block: it waits for the next one.
            keep = 0 if is_last else _unfinished(block)
            rest, block = block[len(block) - keep :], block[: len(block) - keep]
            _examine(block, place, found)
            place += len(block)
    return found


def _blocks(raw: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    block = raw.read(_AT_ONCE)
    while block:
        following = raw.read(_AT_ONCE)
        yield block, not following
        block = following


def _unfinished(block: bytes) -> int:
    """How many bytes at the end may be the beginning of a character."""
    for number in range(1, min(4, len(block) + 1)):
        if block[-number] >= 0xC0:
            return number
        if block[-number] < 0x80:
            return 0
    return 0


def _examine(block: bytes, place: int, found: _Faults) -> None:
    try:
        block.decode(UTF8)
    except UnicodeDecodeError as error:
        if not found.num_invalid:
            found.first, found.first_byte = place + error.start, block[error.start]
        text = block.decode(UTF8, "surrogateescape")
        found.num_invalid += sum(map(len, _INVALID.findall(text)))
        found.num_valid += sum(map(len, _VALID.findall(text)))
        _add_sample(block, error.start, found.sample)
    else:
        found.num_valid += len(block) - len(block.translate(None, _LEADS))


def _add_sample(block: bytes, at: int, sample: bytearray) -> None:
    """Add lines with invalid bytes, the first of which is `at`."""
    while len(sample) < _SAMPLE and at < len(block):
        start = block.rfind(b"\n", max(0, at - _NEAR), at) + 1 or max(0, at - _NEAR)
        end = block.find(b"\n", at, at + _SAMPLE) + 1 or min(len(block), at + _SAMPLE)
        sample += block[start:end]
        at = _next_fault(block, end)


def _next_fault(block: bytes, start: int) -> int:
    try:
        block[start:].decode(UTF8)
    except UnicodeDecodeError as error:
        return start + error.start
    return len(block)


def _unmarked(open_bytes: Open) -> str | None:
    with open_bytes() as raw:
        codec = unmarked_utf16(raw.read(_HEAD))
    return codec if codec and _is_valid(open_bytes, codec) else None


def _is_valid(open_bytes: Open, codec: str) -> bool:
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        with open_bytes() as raw:
            for block in iter(partial(raw.read, _AT_ONCE), b""):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def _stray(error: UnicodeError) -> tuple[str, int]:
    """A byte that is not UTF-8, in windows-1252."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return wrong.decode("windows-1252", "replace"), error.end


codecs.register_error(STRAY, _stray)
