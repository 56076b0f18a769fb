"""The text of pages, extracted in a child process, so that no page can stop the work.

    Extractor   → a line of JSON, then the bytes of a page →   main(), in the child
                ←   the text and the title, as a line of JSON   ←

A page that needs too much processor time, or crashes a library, costs the child process and one
count. The limit is on processor time, not on the clock: a busy machine gives the same corpus. The
operating system enforces it, even inside a library written in C.
"""

import atexit
import codecs
import json
import math
import os
import re
import subprocess
import sys
import threading
import time
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import glassformer
from glassformer.data.encodings import likely_encodings, unmarked_utf16
from glassformer.wording import beginning, shortened

# --- the parent ---

PATIENCE = 20  # times the limit on processor time, by the clock: for a child that hangs


@dataclass(frozen=True)
class Extracted:
    """The text of a page, or the rule by which there is none."""

    text: str = ""
    title: str = ""
    rule: str = ""
    detail: str = ""


class Extractor:
    """A child process, started when it is first needed and again when it was lost."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None

    def extract(self, body: bytes, content_type: str, is_html: bool) -> Extracted:
        answer = self._ask(body, content_type, is_html)
        if answer is None:
            limit = f"more than {self._seconds} seconds, or a crash"
            return Extracted(rule="time_limit", detail=limit)
        if "failed" in answer:
            return Extracted(rule="failed", detail=answer["failed"])
        if not answer["text"]:
            return Extracted(title=answer["title"], rule="no_text")
        return Extracted(answer["text"], answer["title"])

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()

    def _ask(self, body: bytes, content_type: str, is_html: bool) -> dict[str, Any] | None:
        if self._child is None:
            self._child = _started()
        child = self._child
        request = {
            "num_bytes": len(body),
            "content_type": content_type,
            "is_html": is_html,
            "seconds": self._seconds,
        }
        timer = threading.Timer(PATIENCE * self._seconds, child.kill)
        timer.start()
        line = b""
        try:
            if child.stdin is not None and child.stdout is not None:
                child.stdin.write(json.dumps(request).encode() + b"\n" + body)
                child.stdin.flush()
                line = child.stdout.readline()
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return dict(json.loads(line))
        self.close()
        return None


@cache
def shared_extractor(seconds: int) -> Extractor:
    """The extractor of this process: starting one takes as long as several pages."""
    extractor = Extractor(seconds)
    atexit.register(extractor.close)
    return extractor


def _started() -> "subprocess.Popen[bytes]":
    """Start the program, with this package and without the current folder on its path."""
    package = str(Path(glassformer.__file__).parent.parent)
    paths = [package, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "glassformer.corpus.extractor"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


# --- the child ---

# Options of trafilatura that give running text. Its own removal of duplicates would depend on the
# pages before; tables and comments are rarely prose.
OPTIONS: dict[str, Any] = {
    "include_comments": False,
    "include_tables": False,
    "include_images": False,
    "include_links": False,
    "favor_precision": True,
    "deduplicate": False,
}
_LONGEST_TITLE = 300  # characters
_MOST_MEMORY = 2**32  # bytes


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    _limit_memory()
    while line := requests.readline():
        request = json.loads(line)
        body = requests.read(request["num_bytes"])
        _limit_seconds(request["seconds"])
        answer = _answer(body, request["content_type"], request["is_html"])
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def extracted(body: bytes, content_type: str, is_html: bool) -> dict[str, Any]:
    """The text of a page and its title; the text is empty if there is none."""
    text = decoded(body, content_type)
    if not is_html:
        return {"text": _tidy(text), "title": ""}
    import trafilatura

    tree = _tree(text)
    if tree is None:
        return {"text": "", "title": ""}
    title = beginning(UNPRINTABLE.sub("", tree.findtext(".//title") or ""), 4 * _LONGEST_TITLE)
    extract = trafilatura.extract(tree, **OPTIONS) or ""
    return {"text": _tidy(extract), "title": shortened(title, _LONGEST_TITLE)}


def _tree(text: str) -> Any:
    """The elements of a page. Where they are nested too deeply, a parser stops without an error and
    the rest of the page is lost, so we ask."""
    from lxml.html import HTMLParser, fromstring
    from trafilatura import load_html
    from trafilatura.utils import HTML_PARSER

    tree = load_html(text)
    if tree is None or not _gave_up(HTML_PARSER):
        return tree
    deep = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    tree = fromstring(text.encode(errors="replace"), parser=deep)
    if _gave_up(deep):
        raise ValueError("elements are nested too deeply to be read")
    return tree


def _gave_up(parser: Any) -> bool:
    return any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log)


def _answer(body: bytes, content_type: str, is_html: bool) -> dict[str, Any]:
    try:
        return extracted(body, content_type, is_html)
    except (Exception, RecursionError) as error:  # whatever a library meets in a page
        return {"failed": f"{type(error).__name__}: {beginning(str(error), 200)}".rstrip(": ")}


def _tidy(text: str) -> str:
    lines = UNPRINTABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


def _limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError):  # not every system has such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, most))


def _limit_seconds(seconds: int) -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, most))


# --- the encoding of a page, whatever the page says about it ---
#
# A byte order mark counts first, then the escape sequences of encodings with 7 bits. Other bytes
# that are valid UTF-8 are UTF-8: by chance, no other encoding produces them. Then comes the
# encoding that the server or the page names, if all bytes are characters in it. UTF-8 and
# windows-1252 are also what servers name without knowing: many pages in windows-1251 or Shift-JIS
# claim to be these, so the text has to be plausible in them, too. Otherwise it is detected
# (`data/encodings.py`).

_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([\w.:-]{2,40})", re.IGNORECASE)
_NOT_TEXT = re.compile(rb"<[^<>]{0,2000}>|[\t\n\r ]+")
# Browsers read these names as the larger encoding that contains them.
_LARGER = {
    **dict.fromkeys(("ascii", "iso8859-1", "latin-1"), "windows-1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "iso8859-9": "windows-1254",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
_ESCAPES = {"iso2022_jp": b"\x1b$", "iso2022_kr": b"\x1b$)C", "hz": b"~{"}
_SEVERAL_BYTES = ("cp932", "euc_jis_2004", "gb18030", "big5", "cp949")  # for a character
_VIETNAMESE = "cp1258"
_CONTROLS = re.compile("[\x80-\x9f]")
_HEAD = 4096  # bytes in which a page names its encoding
_SAMPLE = 8192  # bytes by which an encoding is detected
_BROKEN = 0.02  # share of characters that may be damaged in UTF-8
# Controls, halves of characters and what XML does not allow.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def decoded(body: bytes, content_type: str) -> str:
    """The text of a page, without characters that no text contains."""
    text, codec = _decoded(body, content_type)
    if codec == _VIETNAMESE:  # in which tones are characters of their own
        text = unicodedata.normalize("NFC", text)
    return UNPRINTABLE.sub("", text).removeprefix("\ufeff")


def _decoded(body: bytes, content_type: str) -> tuple[str, str]:
    """The text of a page, and the encoding that it was in."""
    for mark, codec in _MARKS.items():
        if body.startswith(mark):
            return body.decode(codec, "replace"), codec
    named = _named(content_type.encode("latin-1", "replace")) or _named(body[:_HEAD])
    if (escaped := _escaped(body, named)) is not None:
        return body.decode(escaped, "replace"), escaped
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        pass
    if (wide := unmarked_utf16(body[:_HEAD])) is not None:
        return body.decode(wide, "replace"), wide
    if named == "utf-8":
        text = body.decode("utf-8", "replace")
        beyond = sum(not character.isascii() for character in text)
        if text.count("\ufffd") <= 1 + _BROKEN * beyond:
            return text, "utf-8"
    codec = _likeliest(body, named)
    return body.decode(codec, "replace"), codec


def _escaped(body: bytes, named: str | None) -> str | None:
    """An encoding with 7 bits and escape sequences, if the page is in one."""
    if not body.isascii():
        return None
    if named in _ESCAPES and _ESCAPES[named] in body:
        return named
    return "iso2022_jp" if b"\x1b$B" in body else None


def _likeliest(body: bytes, named: str | None) -> str:
    """The encoding of a page that is not in UTF: the one that it names, or a likelier one."""
    plausible = [_larger(codec) for codec in likely_encodings(_sample(body))]
    likeliest = next(iter(plausible), None)
    if named is None or named == "utf-8":
        return likeliest or named or "cp1252"
    if named == "cp1252" and likeliest == _VIETNAMESE:
        return likeliest  # its bytes are mostly letters of the west, too
    if likeliest is None or named in plausible:
        return named
    is_guess = named == "cp1252" or likeliest in _SEVERAL_BYTES
    return likeliest if is_guess or not _is_text_in(body, named) else named


def _larger(codec: str) -> str:
    """Python's name of an encoding, or of the larger one that contains it."""
    name = codecs.lookup(codec).name
    return codecs.lookup(_LARGER.get(name, name)).name


def _is_text_in(body: bytes, codec: str) -> bool:
    try:
        return not _CONTROLS.search(body.decode(codec))
    except UnicodeDecodeError:
        return False


def _named(text: bytes) -> str | None:
    """The encoding that a header or the beginning of a page names, if there is such a one."""
    charset = _CHARSET.search(text)
    if charset is None:
        return None
    try:
        name = codecs.lookup(charset[1].decode()).name
        b"".decode(name)  # some codecs do not make text
    except (LookupError, ValueError, TypeError, AssertionError):
        return None
    return _larger(name)


def _sample(body: bytes) -> bytes:
    """Some of the text of a page, without its markup, which ends with a whole character."""
    plain = _NOT_TEXT.sub(b" ", body[: 32 * _SAMPLE])
    beyond = next((at for at, byte in enumerate(plain) if byte > 127), 0)
    start = plain.rfind(b" ", 0, beyond) + 1
    sample = plain[start : start + _SAMPLE]
    if len(sample) < _SAMPLE:
        return sample
    return sample[: sample.rfind(b" ")] if b" " in sample else sample


if __name__ == "__main__":
    main()
