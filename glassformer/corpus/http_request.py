"""One HTTP request to a checked address, with a limit on everything that comes back.

The standard library's `http.client` parses responses. It reads through a stream that ends at a
deadline, however slowly the bytes drip, and pages are decompressed no further than they may be
large.
"""

import http.client
import io
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.corpus.addresses import Endpoint, Network
from glassformer.corpus.brotli_body import BrotliBody, DamagedBrotliError, has_brotli
from glassformer.corpus.outcomes import FetchError
from glassformer.corpus.urls import Url
from glassformer.wording import cause, readable_size

PAGES = ("text/html", "application/xhtml+xml", "text/plain")
REDIRECTS = (301, 302, 303, 307, 308)
_AT_ONCE = 2**16  # bytes
_GLANCE = 0.5  # seconds after which a waiting stream looks whether the program is ending


@dataclass(frozen=True)
class Response:
    """What a server answered; the body is empty unless the status is 200 to 299."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    """Decompressed."""
    address: str

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name.lower()), "")

    @property
    def media_type(self) -> str:
        return self.header("Content-Type").partition(";")[0].strip().lower()


@dataclass(frozen=True)
class Client:
    """Who asks, and what is too slow or too large."""

    user_agent: str
    network: Network
    tls: ssl.SSLContext
    stopping: threading.Event

    def headers(self, url: Url) -> dict[str, str]:
        return {
            "Host": url.netloc,
            "User-Agent": self.user_agent,
            "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.1",
            "Accept-Encoding": "gzip, deflate",
            "Connection": "close",
        }

    def get(
        self, url: Url, timeout: float, largest: int, types: Sequence[str] = (), cut: bool = False
    ) -> Response:
        """The response to a GET request. Redirects are not followed. What is larger than `largest`
        is an error, or cut off there."""
        deadline = _Deadline(timeout, self.stopping)
        try:
            endpoints = self.network.endpoints(url.host, url.port, deadline.left())
            with self._connected(url, endpoints, deadline) as connection:
                return self._exchange(url, connection, largest, types, cut)
        except TimeoutError:
            raise FetchError("timed_out", f"longer than {timeout:g} s") from None
        except ssl.SSLError as error:
            raise FetchError("tls", error.reason or cause(error)) from None
        except (http.client.HTTPException, ValueError) as error:
            raise FetchError("broken", cause(error)) from None
        except OSError as error:
            raise FetchError("connection", cause(error)) from None

    def _connected(
        self, url: Url, endpoints: Sequence[Endpoint], deadline: "_Deadline"
    ) -> "_Connection":
        connection = _reached(endpoints, deadline)
        address = endpoints[0][0]
        try:
            address = connection.getpeername()[0]
            if url.scheme == "https":
                connection.settimeout(deadline.left())
                connection = self.tls.wrap_socket(connection, server_hostname=url.host)
        except BaseException:
            connection.close()
            raise
        return _Connection(connection, deadline, address)

    def _exchange(
        self, url: Url, stream: "_Connection", largest: int, types: Sequence[str], cut: bool
    ) -> Response:
        connection = http.client.HTTPConnection(url.host, url.port)
        connection.sock = stream
        connection.putrequest("GET", url.target, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers(url).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        headers = tuple((name, " ".join(value.split())) for name, value in answer.getheaders())
        response = Response(answer.status, answer.reason, headers, b"", stream.address)
        if not 200 <= answer.status < 300:
            return response
        if types and response.media_type not in types:
            raise FetchError("bad_type", response.media_type or "no content type")
        body = _body(answer, response.header("Content-Encoding"), largest, cut)
        return replace(response, body=body)


def _reached(endpoints: Sequence[Endpoint], deadline: "_Deadline") -> socket.socket:
    """A connection to the first address that accepts one."""
    problem: OSError = ConnectionError("no address")
    for number, endpoint in enumerate(endpoints):
        share = deadline.left() / (len(endpoints) - number)
        try:
            return socket.create_connection(endpoint, share)
        except OSError as error:
            problem = error
    raise problem


class _Deadline:
    def __init__(self, seconds: float, stopping: threading.Event) -> None:
        self._end, self._stopping = time.monotonic() + seconds, stopping

    def left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0 or self._stopping.is_set():
            raise TimeoutError
        return left


class _Connection:
    """What `http.client` needs of a socket. Every read and write ends at the deadline."""

    def __init__(self, connection: socket.socket, deadline: _Deadline, address: str) -> None:
        self._socket, self._deadline, self.address = connection, deadline, address

    def __enter__(self) -> "_Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def sendall(self, content: bytes) -> None:
        self._socket.settimeout(self._deadline.left())
        self._socket.sendall(content)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._socket, self._deadline), _AT_ONCE)

    def close(self) -> None:
        """The response is still being read."""


class _TimedReader(io.RawIOBase):
    def __init__(self, connection: socket.socket, deadline: _Deadline) -> None:
        self._socket, self._deadline = connection, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            self._socket.settimeout(min(self._deadline.left(), _GLANCE))
            try:
                return self._socket.recv_into(buffer)
            except TimeoutError:
                continue


# --- what is received ---


def _body(answer: http.client.HTTPResponse, encoding: str, largest: int, cut: bool) -> bytes:
    decoder = _decoder(encoding)
    body = bytearray()
    received = 0
    while block := answer.read(_AT_ONCE):
        received += len(block)
        try:
            body += decoder.decode(block, largest + 1 - len(body))
        except DamagedBrotliError:
            raise FetchError("broken", "the page cannot be decompressed") from None
        if max(len(body), received) > largest:
            if cut:
                return bytes(body[:largest])
            raise FetchError("too_large", f"more than {readable_size(largest)}")
    if answer.length:
        raise FetchError("broken", f"{answer.length:,} bytes are missing")
    if not decoder.is_whole:
        raise FetchError("broken", "the compressed page is truncated")
    return bytes(body)


def _decoder(encoding: str) -> "_Plain | _Inflating | BrotliBody":
    names = [name.strip().lower() for name in encoding.split(",")]
    names = [name for name in names if name not in ("", "identity")]
    if not names:
        return _Plain()
    if names == ["br"] and has_brotli():  # some servers send it to everyone
        return BrotliBody()
    if names not in (["gzip"], ["x-gzip"], ["deflate"]):
        raise FetchError("broken", f"content encoding {encoding}, which was not asked for")
    return _Inflating(names[0] == "deflate")


class _Plain:
    is_whole = True

    def decode(self, block: bytes, most: int) -> bytes:
        return block


class _Inflating:
    """gzip, also of several parts, and deflate, also without its header, as some servers send."""

    def __init__(self, is_deflate: bool) -> None:
        self._is_deflate, self._is_first = is_deflate, True
        self._part = zlib.decompressobj(zlib.MAX_WBITS + (0 if is_deflate else 16))

    @property
    def is_whole(self) -> bool:
        return self._is_first or self._part.eof

    def decode(self, block: bytes, most: int) -> bytes:
        """At most so many bytes, even if there are more."""
        try:
            try:
                found = self._decompress(block, most)
            except zlib.error:
                if not (self._is_deflate and self._is_first):
                    raise
                self._part = zlib.decompressobj(-zlib.MAX_WBITS)
                found = self._decompress(block, most)
        except zlib.error:
            raise FetchError("broken", "the page cannot be decompressed") from None
        self._is_first = False
        return found

    def _decompress(self, block: bytes, most: int) -> bytes:
        found = b""
        while block and len(found) < most:
            if self._part.eof:
                if self._is_deflate or not block.startswith(b"\x1f\x8b"):
                    return found  # padding after the end
                self._part = zlib.decompressobj(zlib.MAX_WBITS + 16)
            found += self._part.decompress(block, most - len(found))
            block = self._part.unused_data if self._part.eof else b""
        return found
