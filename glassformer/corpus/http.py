"""HTTP: one request to a checked address, and responses as crawlers store them.

    host → addresses, all public → connection → response → body, within a limit

Python's `http.client` parses responses. Libraries for HTTP have no deadline for a response as a
whole: here, they are read through a stream that ends at a deadline, however slowly the bytes drip,
and pages are decompressed no further than they may be large.
"""

import http.client
import importlib.util
import io
import ipaddress
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.corpus import EXTRA
from glassformer.corpus.urls import Url
from glassformer.wording import cause, counted, install, readable_size

# --- what became of a link: each one ends in exactly one outcome ---

OUTCOMES = {
    "fetched": "pages in the WARC files",
    "robots": "forbidden by the site's robots.txt",
    "robots_unreachable": "the site's robots.txt could not be read, which forbids everything",
    "crawl_delay": "robots.txt asks for a longer delay than a minute",
    "bad_url": "URLs that cannot lead to a page on the public web",
    "bad_redirect": "redirected to a URL that cannot lead to a page on the public web",
    "redirects": "redirected more than five times",
    "port": "other ports than 80 and 443",
    "not_public": "hosts whose address is not public",
    "dns": "hosts whose name cannot be resolved",
    "connection": "connections that were refused or broke",
    "tls": "invalid certificates and other errors of encryption",
    "timed_out": "took longer than --timeout",
    "too_large": "larger than --max-page-size",
    "bad_type": "neither HTML nor plain text",
    "broken": "responses that do not follow the rules of HTTP",
}
HTTP = "http_"  # followed by the status, such as http_404
UNREACHABLE = ("dns", "connection", "timed_out")
_PASSING = (*UNREACHABLE, "robots_unreachable", "broken", f"{HTTP}408", f"{HTTP}429")


def described(outcome: str) -> str:
    return OUTCOMES.get(outcome) or f"the site answered with status {outcome.removeprefix(HTTP)}"


def may_pass(outcome: str) -> bool:
    """Whether another try may end differently."""
    return outcome in _PASSING or outcome.startswith(f"{HTTP}5")


class FetchError(Exception):
    """A page was not fetched."""

    def __init__(self, outcome: str, detail: str = "") -> None:
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail


# --- addresses: pages are fetched from the public internet only ---
#
# A name is resolved once for a request, every address is checked, and the connection goes to a
# checked address. So neither a redirect nor a name server can lead a fetch to this machine or into
# a private network, not even a name server that answers differently the second time.

Endpoint = tuple[str, int]  # an address and a port

_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")  # all that has been allocated
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_RELAYS = ipaddress.IPv4Network("192.88.99.0/24")  # of 6to4


def is_public(text: str) -> bool:
    """Whether an address belongs to the public internet, by whichever form it is written in."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # fe80::1%eth0, for example
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and address not in _RELAYS
    if inner := _inner(address):
        return all(is_public(str(part)) for part in inner)
    return address.is_global and address in _PUBLIC_IPV6


def _inner(address: ipaddress.IPv6Address) -> tuple[ipaddress.IPv4Address, ...]:
    """The IPv4 addresses inside an IPv6 address: mapped, 6to4, Teredo, NAT64."""
    if address in _NAT64:
        return (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
    mapped = address.ipv4_mapped or address.sixtofour
    return (mapped,) if mapped else address.teredo or ()


class Network:
    """The public internet. Tests replace it by a server on their own machine."""

    ports = (80, 443)

    def endpoints(self, host: str, port: int, timeout: float) -> list[Endpoint]:
        """Where to connect for a host; a FetchError unless all of its addresses are public."""
        if port not in self.ports:
            raise FetchError("port", f"port {port}")
        addresses = resolve(host, port, timeout)
        if private := [address for address in addresses if not is_public(address)]:
            raise FetchError("not_public", f"{host} is {private[0]}")
        return [(address, port) for address in addresses]


def resolve(host: str, port: int, timeout: float) -> list[str]:
    """The addresses of a host name. The system's resolver knows no time limit, so it gets a thread
    that may be left behind."""
    answers: list[Any] = []

    def ask() -> None:
        try:
            answers.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout)
    if not answers:
        raise FetchError("timed_out", f"{host} was not resolved")
    if isinstance(answers[0], Exception):
        raise FetchError("dns", f"{host} cannot be resolved")
    return list(dict.fromkeys(str(info[4][0]) for info in answers[0]))


# --- the request ---

PAGES = ("text/html", "application/xhtml+xml", "text/plain")
REDIRECTS = (301, 302, 303, 307, 308)
_AT_ONCE = 2**16  # bytes
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"  # how such bodies begin
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


# --- the body, as it arrives ---


def _body(answer: http.client.HTTPResponse, encoding: str, largest: int, cut: bool) -> bytes:
    decoder = _decoder(encoding)
    body = bytearray()
    received = 0
    while block := answer.read(_AT_ONCE):
        received += len(block)
        try:
            body += decoder.decode(block, largest + 1 - len(body))
        except DamagedBodyError:
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


class DamagedBodyError(ValueError):
    """Bytes that are not of the encoding they should be in, or are damaged."""


class _Plain:
    is_whole = True

    def decode(self, block: bytes, most: int) -> bytes:
        return block


class _Inflating:
    """gzip, also of several parts, and deflate, also without its header, as some servers send."""

    def __init__(self, is_deflate: bool) -> None:
        self._is_deflate, self._is_first = is_deflate, True
        self._beginning = b""  # of the next part, if a block ended within its first bytes
        self._part = zlib.decompressobj(zlib.MAX_WBITS + (0 if is_deflate else 16))

    @property
    def is_whole(self) -> bool:
        return self._is_first or self._part.eof

    def decode(self, block: bytes, most: int) -> bytes:
        """At most so many bytes, even if there are more."""
        try:
            try:
                content = self._decompress(block, most)
            except zlib.error:
                if not (self._is_deflate and self._is_first):
                    raise
                self._part = zlib.decompressobj(-zlib.MAX_WBITS)
                content = self._decompress(block, most)
        except zlib.error as error:
            raise DamagedBodyError(str(error)) from None
        self._is_first = False
        return content

    def _decompress(self, block: bytes, most: int) -> bytes:
        content = b""
        block, self._beginning = self._beginning + block, b""
        while block and len(content) < most:
            if self._part.eof:
                if self._is_deflate or not block.startswith(_GZIP):
                    if len(block) < len(_GZIP) and _GZIP.startswith(block):
                        self._beginning = block
                    return content  # padding after the end
                self._part = zlib.decompressobj(zlib.MAX_WBITS + 16)
            content += self._part.decompress(block, most - len(content))
            block = self._part.unused_data if self._part.eof else b""
        return content


# Browsers ask for brotli, and crawlers that act like them store what they got. `brotli` is
# optional: without it, such pages are counted under a rule of their own.


def has_brotli() -> bool:
    return importlib.util.find_spec("brotli") is not None


class BrotliBody:
    """The bytes of a body, in the order in which they arrive."""

    def __init__(self) -> None:
        import brotli

        self._unpacker, self._error = brotli.Decompressor(), brotli.error

    @property
    def is_whole(self) -> bool:
        return bool(self._unpacker.is_finished())

    def decode(self, block: bytes, most: int) -> bytes:
        """At most so many bytes, even if there are more."""
        content = b""
        try:
            while len(content) < most and not self.is_whole:
                if not block and self._unpacker.can_accept_more_data():
                    break
                # It may give twice as many bytes, and waits with the rest until it is called again.
                content += self._unpacker.process(block, output_buffer_limit=most - len(content))
                block = b""
        except self._error:
            raise DamagedBodyError from None
        return content[:most]


# --- the message in a WARC record: status, headers, and a body of bounded size ---
#
# Bodies may be sent in chunks and compressed. Both are undone here, within a limit on decompressed
# bytes. Crawlers often store a body already decoded and leave the header as it was: what does not
# look chunked or compressed is taken as it is.

_HEAD_END = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/\S+\s+(\d{3})")
_CHUNK = re.compile(rb"\s*([0-9a-fA-F]{1,8})[^\r\n]{0,200}\r?\n")


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
    if encoding in ("gzip", "x-gzip") and not body.startswith(_GZIP):
        return body
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _inflated(body, encoding == "deflate", most)
    if encoding == "zstd" and body.startswith(_ZSTD):
        return _from_zstd(body, most)
    if encoding == "br" and (content := _from_brotli(body, most)) is not None:
        return content
    if body.lstrip()[:1] == b"<":  # markup that was stored decoded
        return body
    if encoding == "br" and not has_brotli():
        raise BodyError("brotli", f"Run {install(EXTRA)}")
    raise BodyError("compression", f"Content-Encoding {encoding[:40]}")


def _inflated(body: bytes, is_deflate: bool, most: int) -> bytes:
    decoder, content = _Inflating(is_deflate), b""
    try:
        for start in range(0, len(body), _AT_ONCE):
            content += decoder.decode(body[start : start + _AT_ONCE], most + 1 - len(content))
            if len(content) > most:
                break
        return content
    except DamagedBodyError as error:
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
        content = unpacker.decode(body, most + 1)
    except DamagedBodyError:
        return None
    return content if unpacker.is_whole or len(content) > most else None


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
