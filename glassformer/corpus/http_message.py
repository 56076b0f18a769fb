"""The HTTP message in a WARC record: status, headers, and a body of bounded size.

Bodies may be sent in chunks and compressed. Both are undone here, within a limit on decompressed
bytes. Crawlers often store a body already decoded and leave the header as it was: what does not
look chunked or compressed is taken as it is.
"""

import re
import zlib
from dataclasses import dataclass

from glassformer.corpus.brotli_body import BrotliBody, DamagedBrotliError, has_brotli
from glassformer.corpus.outcomes import EXTRA
from glassformer.wording import counted, install

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/\S+\s+(\d{3})")
_CHUNK = re.compile(rb"\s*([0-9a-fA-F]{1,8})[^\r\n]{0,200}\r?\n")
_WINDOW = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_ZSTD = b"\x28\xb5\x2f\xfd"


class BodyError(Exception):
    """A body that cannot be used. `rule` is the name under which it is counted."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(detail)
        self.rule = rule


@dataclass(frozen=True)
class HttpMessage:
    """A response, as far as it was read."""

    status: int
    headers: dict[str, str]
    """Values by names in lower case."""
    raw_body: bytes

    def body(self, most: int) -> bytes:
        """The body as the server meant it, of at most so many bytes."""
        body = self.raw_body
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            body = _without_chunks(body)
        for encoding in reversed(self.headers.get("content-encoding", "").lower().split(",")):
            body = unpacked(body, encoding.strip(), most)
        return within(body, most)


def parse_message(block: bytes) -> HttpMessage | None:
    """The message in the content of a response record; None if it is none."""
    status = _STATUS.match(block)
    if status is None:
        return None
    end = _HEAD_END.search(block)
    head = block if end is None else block[: end.start()]
    headers: dict[str, str] = {}
    for line in head.decode("latin-1").splitlines()[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers.setdefault(name.strip().lower(), value.strip())
    return HttpMessage(int(status[1]), headers, b"" if end is None else block[end.end() :])


def within(body: bytes, most: int) -> bytes:
    if len(body) > most:
        raise BodyError("too_large", f"more than {counted(most, 'byte')}")
    return body


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A body without its compression; never more than one byte beyond the limit is unpacked."""
    if encoding in ("", "identity", "none", "utf-8"):
        return body
    if encoding in ("gzip", "x-gzip") and not body.startswith(b"\x1f\x8b"):
        return body
    if encoding == "deflate":
        return _inflated(body, 15, most) if body[:1] == b"x" else _inflated(body, -15, most)
    if encoding in _WINDOW:
        return _inflated(body, _WINDOW[encoding], most)
    if encoding == "zstd" and body.startswith(_ZSTD):
        return _from_zstd(body, most)
    if encoding == "br" and (found := _from_brotli(body, most)) is not None:
        return found
    if body.lstrip()[:1] == b"<":  # markup that was stored decoded
        return body
    if encoding == "br" and not has_brotli():
        raise BodyError("brotli", f"Run {install(EXTRA)}")
    raise BodyError("compression", f"Content-Encoding {encoding[:40]}")


def _inflated(body: bytes, window: int, most: int) -> bytes:
    unpacker = zlib.decompressobj(window)
    try:
        return unpacker.decompress(body, most + 1)
    except zlib.error as error:
        if body.lstrip()[:1] == b"<":
            return body
        raise BodyError("compression", f"damaged data ({error})") from None


def _from_zstd(body: bytes, most: int) -> bytes:
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(body) as stream:
            return bytes(stream.read(most + 1))
    except zstandard.ZstdError as error:
        raise BodyError("compression", f"damaged data ({error})") from None


def _from_brotli(body: bytes, most: int) -> bytes | None:
    """None if the body is not brotli, which has no mark at its beginning."""
    if not has_brotli():
        return None
    unpacker = BrotliBody()
    try:
        found = unpacker.decode(body, most + 1)
    except DamagedBrotliError:
        return None
    return found if unpacker.is_whole or len(found) > most else None


def _without_chunks(body: bytes) -> bytes:
    """The chunks joined. Where they stop following the rules, the rest is taken as it is."""
    parts, at = list[bytes](), 0
    while header := _CHUNK.match(body, at):
        size = int(header[1], 16)
        if not size:
            return b"".join(parts)
        parts.append(body[header.end() : header.end() + size])
        at = header.end() + size
    parts.append(body[at:].lstrip(b"\r\n") if parts else body)
    return b"".join(parts)
