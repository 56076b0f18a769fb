"""Small WARC files for tests, written byte by byte."""

import gzip
import random
from pathlib import Path

_WORDS = """
river mountain summer evening teacher garden window letter music village morning bridge captain
forest island journey kitchen market neighbour paper question silver story table valley winter
author border candle doctor engine farmer glass harbour iron jacket walked looked found wanted
remembered carried opened followed believed answered always never often quietly slowly old young
small bright heavy warm distant before after under between without
"""
_SMALL = "the of and to in that with was have for on as at be this from they were it"
WORDS, SMALL = _WORDS.split(), _SMALL.split()


def prose(seed: int, num_sentences: int = 12) -> str:
    """English-like sentences that pass the rules, different for each seed."""
    draw = random.Random(seed)
    sentences = []
    for _ in range(num_sentences):
        chosen = [draw.choice(WORDS if at % 2 else SMALL) for at in range(draw.randint(9, 16))]
        sentences.append(" ".join(chosen).capitalize() + ".")
    return " ".join(sentences)


def html(text: str, title: str = "A title", head: str = "") -> str:
    paragraphs = "".join(f"<p>{part}</p>" for part in text.split("\n"))
    menu = "<nav><a href='/'>Home</a> <a href='/about'>About</a></nav>"
    return (
        f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{menu}"
        f"<article><h1>{title}</h1>{paragraphs}</article></body></html>"
    )


def response(
    url: str,
    body: bytes | str,
    content_type: str = "text/html; charset=utf-8",
    status: str = "200 OK",
    headers: str = "",
    link: str = "",
) -> bytes:
    """A response record."""
    content = body.encode() if isinstance(body, str) else body
    named = f"Content-Type: {content_type}\r\n" if content_type else ""
    head = f"HTTP/1.1 {status}\r\n{named}{headers}\r\n".encode()
    kind = "application/http; msgtype=response"
    return record("response", head + content, url, kind, link=link)


def record(
    kind: str,
    block: bytes,
    url: str = "",
    content_type: str = "",
    length: int = -1,
    link: str = "",
) -> bytes:
    fields = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": "2024-05-01T10:00:00Z",
        "Content-Type": content_type,
        "X-Link": link,
        "Content-Length": str(len(block) if length < 0 else length),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
    return b"WARC/1.0\r\n" + lines.encode() + b"\r\n" + block + b"\r\n\r\n"


def write_warc(path: Path, *records: bytes) -> Path:
    """A WARC file; each record is a gzip member or a frame if its name ends in .gz or .zst."""
    import zstandard

    frame = zstandard.ZstdCompressor(write_checksum=True).compress
    pack = {".gz": gzip.compress, ".zst": frame}.get(path.suffix, bytes)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(pack(each) for each in records))
    return path
