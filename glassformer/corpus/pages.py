"""From a WARC record to the bytes of a page, or the rule by which it is none."""

import re
from dataclasses import dataclass
from typing import Any

from glassformer.corpus.http_message import BodyError, parse_message, within
from glassformer.corpus.linked_pages import Linked, key_of
from glassformer.corpus.warc_files import Record

_HEADERS = 2**16  # bytes of an HTTP message before its body
_HTML = ("text/html", "application/xhtml+xml")
_TEXT = "text/plain"
_ROBOTS_TXT = re.compile(r"https?://[^/?#]*/robots\.txt", re.IGNORECASE)


class DroppedError(Exception):
    """A page that does not become part of the corpus."""

    def __init__(self, rule: str, detail: str = "", text: str = "", title: str = "") -> None:
        super().__init__(rule)
        self.rule, self.detail, self.text, self.title = rule, detail, text, title


@dataclass(frozen=True)
class Page:
    """A page as the server sent it, without compression."""

    url: str
    date: str
    body: bytes
    content_type: str
    about: dict[str, Any]
    """What is known of the link that led to it."""

    @property
    def is_html(self) -> bool:
        return media_type(self.content_type) != _TEXT


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def page_of(record: Record, linked: Linked | None, most: int) -> Page:
    """The page in a record. Without `linked`, every page is wanted."""
    is_whole = record.length <= most + _HEADERS
    block = record.beginning(record.length if is_whole else _HEADERS)
    message = parse_message(block)
    if record.kind == "response":
        if message is None:
            raise DroppedError("page/not_http", media_type(record.content_type))
        if message.status != 200:
            raise DroppedError("page/status", str(message.status))
        content_type = message.headers.get("content-type", "") or _guessed(message.raw_body)
    else:
        message, content_type = None, record.content_type
    if _ROBOTS_TXT.fullmatch(record.url):
        raise DroppedError("page/robots_txt")
    if media_type(content_type) not in (*_HTML, _TEXT):
        raise DroppedError("page/type", media_type(content_type)[:80])
    about = {} if linked is None else _link_to(record, linked)
    if about is None:
        raise DroppedError("page/not_linked")
    if not is_whole:
        raise DroppedError("page/too_large", f"{record.length:,} bytes")
    try:
        body = within(block, most) if message is None else message.body(most)
    except BodyError as error:
        raise DroppedError(f"page/{error.rule}", str(error)) from None
    return Page(record.url, record.date, body, content_type, about)


def _link_to(record: Record, linked: Linked) -> dict[str, Any] | None:
    """What is known of the link that led to a page; None if there is none."""
    by_url = linked.get(key_of(record.url))
    return linked.get(key_of(record.link)) if by_url is None and record.link else by_url


def _guessed(body: bytes) -> str:
    """The type of a body for which the server named none."""
    return "text/html" if body.lstrip()[:1] == b"<" else ""
