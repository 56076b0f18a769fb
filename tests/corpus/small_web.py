"""A web of one server on this machine: every host name leads to it, and it answers as it is told.

Pages are bytes of HTTP, or generators of them, by host and path.
"""

import gzip
import json
import socketserver
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from glassformer.corpus.fetch import Fetched, FetchSettings, fetch_pages
from glassformer.corpus.http import Endpoint, Network

Answer = bytes | Iterable[bytes]
QUICK = {"delay": 0.0, "timeout": 5.0}


def page(
    body: bytes | str = "<p>Hello.</p>",
    status: str = "200 OK",
    kind: str = "text/html",
    **more: str,
) -> bytes:
    """A response with its headers."""
    content = body.encode() if isinstance(body, str) else body
    fields = {"Content-Type": kind, "Content-Length": str(len(content))}
    fields |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def redirect(location: str) -> bytes:
    return page("", "302 Found", Location=location)


def gzipped(content: bytes, **more: str) -> bytes:
    return page(gzip.compress(content), Content_Encoding="gzip", **more)


def dripping(content: bytes, pause: float = 0.05) -> Iterator[bytes]:
    for at in range(len(content)):
        yield content[at : at + 1]
        time.sleep(pause)


class SmallWeb(Network):
    """The server, and the network in which all names lead to it. Everything not told is a 404."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[tuple[float, str, dict[str, str]]] = []
        web = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                web.answer(self.rfile, self.wfile)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, request_queue_size = True, 64

            def handle_error(self, *_: Any) -> None:
                """The client has gone, as some tests want."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address: Endpoint = self.server.server_address  # type: ignore[assignment]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def endpoints(self, host: str, port: int, timeout: float) -> list[Endpoint]:
        return [self.address]

    def answer(self, request: Any, response: Any) -> None:
        first = request.readline().decode()
        fields = {}
        while (line := request.readline().decode().strip()) != "":
            name, _, value = line.partition(": ")
            fields[name] = value
        url = f"{fields['Host']}{first.split()[1]}"
        self.asked.append((time.monotonic(), url, fields))
        answer = self.pages.get(url, page("", "404 Not Found"))
        for block in (answer,) if isinstance(answer, bytes) else answer:
            response.write(block)
            response.flush()

    def urls(self) -> list[str]:
        """What was asked for, without robots.txt."""
        return [url for _, url, _ in self.asked if not url.endswith("/robots.txt")]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def fetch(self, folder: Path, *urls: str, retry: bool = False, **settings: Any) -> Fetched:
        """Fetch these URLs into folder/pages."""
        links = folder / "links.jsonl"
        links.write_text("".join(json.dumps({"url": url}) + "\n" for url in urls))
        chosen = FetchSettings(**QUICK | settings)
        return fetch_pages(links, folder / "pages", chosen, retry, network=self)


def outcomes(pages: Path) -> dict[str, str]:
    """The outcome of each link; each has exactly one."""
    lines = [json.loads(line) for line in (pages / "outcomes.jsonl").read_text().splitlines()]
    found = {line["url"]: line["outcome"] for line in lines}
    assert len(found) == len(lines)
    return found


def stored(pages: Path) -> dict[str, bytes]:
    """The pages in the WARC files by their links, read by warcio with all digests checked."""
    from warcio.archiveiterator import ArchiveIterator

    found: dict[str, bytes] = {}
    for file in sorted(pages.glob("*.warc.gz")):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                if record.rec_type == "response":
                    link = record.rec_headers.get_header("X-Link")
                    assert link not in found
                    found[link] = record.content_stream().read()
    return found
