"""The program that extracts the text of pages, in a process of its own (see `extractor.py`).

Pages come through its standard input and answers leave through its standard output, each as a line
of JSON; the bytes of a page follow its line. The operating system ends the process when a page
needs more processor time than allowed, even inside a library written in C.
"""

import json
import math
import sys
import time
from contextlib import suppress
from typing import Any, BinaryIO

from glassformer.corpus.page_decoding import UNPRINTABLE, decoded
from glassformer.wording import beginning, shortened

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
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    _limit_memory()
    while line := requests.readline():
        request = json.loads(line)
        body = requests.read(request["num_bytes"])
        _limit_seconds(request["seconds"])
        answer = _answer(body, request["content_type"], request["is_html"])
        _send(answers, answer)


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
    return any(each.type_name == "ERR_RESOURCE_LIMIT" for each in parser.error_log)


def _answer(body: bytes, content_type: str, is_html: bool) -> dict[str, Any]:
    try:
        return extracted(body, content_type, is_html)
    except (Exception, RecursionError) as error:  # whatever a library meets in a page
        return {"failed": f"{type(error).__name__}: {beginning(str(error), 200)}".rstrip(": ")}


def _tidy(text: str) -> str:
    lines = UNPRINTABLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip()


def _send(answers: BinaryIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


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


if __name__ == "__main__":
    main()
