"""Fetched pages as WARC records, each a gzip member of its own.

A page is a `response` and the `request` that led to it. As in Common Crawl's files, the body is
decompressed, and headers that described how it was sent are kept under names with X-Crawl-. The
field X-Link holds the URL of the link, which differs from the page's after redirects.
"""

import io
from dataclasses import dataclass
from typing import Any

from glassformer.corpus.http_request import Response
from glassformer.corpus.urls import Url

_ABOUT_SENDING = ("content-encoding", "transfer-encoding", "content-length")


@dataclass(frozen=True)
class Page:
    """A page as it was fetched."""

    url: Url
    request: dict[str, str]
    """The headers that were sent."""
    response: Response


def page_records(page: Page, link: str) -> bytes:
    """The bytes of both records."""
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    buffer, url = io.BytesIO(), str(page.url)
    writer = WARCWriter(buffer, gzip=True, warc_version="1.1")
    answer = page.response
    status = _ascii(f"{answer.status} {answer.reason}")
    fields = {"WARC-IP-Address": answer.address, "X-Link": link}
    response = writer.create_warc_record(
        url,
        "response",
        io.BytesIO(answer.body),
        length=len(answer.body),
        warc_headers_dict=fields,
        http_headers=StatusAndHeaders(status, _archived(answer), protocol="HTTP/1.1"),
    )
    request = writer.create_warc_record(
        url,
        "request",
        http_headers=StatusAndHeaders(
            f"GET {page.url.target} HTTP/1.1", list(page.request.items()), is_http_request=True
        ),
    )
    writer.write_request_response_pair(request, response)
    return buffer.getvalue()


def _archived(answer: Response) -> list[tuple[str, str]]:
    headers = [
        (f"X-Crawl-{name}" if name.lower() in _ABOUT_SENDING else _ascii(name), value)
        for name, value in answer.headers
    ]
    return [*headers, ("Content-Length", str(len(answer.body)))]


def _ascii(text: str) -> str:
    """On one line, as records are written."""
    return " ".join(text.encode("ascii", "replace").decode().split())


def warcinfo(name: str, about: dict[str, Any]) -> bytes:
    """The record at the beginning of a file, which says who wrote it and how."""
    from warcio.warcwriter import WARCWriter

    from glassformer import __version__

    buffer = io.BytesIO()
    writer = WARCWriter(buffer, gzip=True, warc_version="1.1")
    fields = {
        "software": f"glassformer/{__version__}",
        "format": "WARC File Format 1.1",
        "robots": "RFC 9309",
        "http-header-user-agent": about["user_agent"],
    }
    writer.write_record(writer.create_warcinfo_record(name, fields))
    return buffer.getvalue()
