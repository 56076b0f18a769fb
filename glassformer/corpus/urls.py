"""URLs: which ones lead to a page on the public web, and when two of them are the same page.

HTTP://www.Example.org:80/b/../%7ea/?utm_source=x&id=3#top     as posted
http://www.example.org/~a/?id=3                                as it is fetched
example.org/~a?id=3                                            the key: equal for the same page
"""

import ipaddress
import re
import socket
import string
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from glassformer.errors import require

# --- outcomes ---
# What became of a link: each one ends in exactly one outcome.

EXTRA = "glassformer[corpus]"  # what installs all packages of a corpus

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


def in_columns(*rows: tuple[str, int, str]) -> str:
    """Names, numbers and what they count, below each other."""
    width = max(20, *(len(name) + 2 for name, _, _ in rows))
    lines = (f"{name.replace('_', ' '):<{width}}{n:>12,}  {about}" for name, n, about in rows)
    return "\n".join(map(str.rstrip, lines))


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


# --- urls ---

LONGEST_URL = 2_000  # characters
DEFAULT_PORTS = {"http": 80, "https": 443}

_TRACKING = re.compile(
    r"(utm_\w+|fbclid|gclid|dclid|msclkid|yclid|igshid|mc_cid|mc_eid|mkt_tok|_hsenc|_hsmi"
    r"|cmp|cmpid|ncid|ocid|smid|ftag|ref_src|__twitter_impression)"
)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff\ufffd]")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_TOP_LEVEL = re.compile(r"[a-z]{2,63}|xn--[a-z0-9-]{2,59}")  # no number: 127.1 is an address
# Names that never lead to the public web (RFC 2606, 6761, 6762, 7686, 8375).
_PRIVATE = (
    *("local", "localhost", "internal", "intranet", "lan", "home", "corp", "onion", "arpa"),
    *("test", "invalid", "example"),
)
_UNRESERVED = f"{string.ascii_letters}{string.digits}-._~"
_KEPT_IN_PATH = "/:@!$&'()*+,;="
_KEPT_IN_QUERY = f"{_KEPT_IN_PATH}?[]|"
_ESCAPE_OR_CHARACTER = re.compile(r"%[0-9A-Fa-f]{2}|[^a-zA-Z0-9._~/-]")


class BadUrlError(ValueError):
    """A URL that cannot lead to a page on the public web."""


class NotHttpError(BadUrlError):
    """A URL of another kind, such as ftp: or mailto:."""


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URL of the web, normalized."""

    scheme: str
    host: str
    port: int
    path: str
    query: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.target}"

    @property
    def netloc(self) -> str:
        """The host, with its port unless it is the default, as in the header `Host`."""
        is_default = DEFAULT_PORTS[self.scheme] == self.port
        return self.host if is_default else f"{self.host}:{self.port}"

    @property
    def target(self) -> str:
        """What a server is asked for."""
        return f"{self.path or '/'}{'?' if self.query else ''}{self.query}"

    @property
    def domain(self) -> str:
        return self.host.removeprefix("www.")

    @property
    def key(self) -> str:
        """Equal for URLs of the same page: http and https, with and without www. and slash."""
        is_default = self.port in DEFAULT_PORTS.values()
        port = "" if is_default else f":{self.port}"
        query = f"?{self.query}" if self.query else ""
        return f"{self.domain}{port}{self.path.rstrip('/')}{query}"


def parse_url(text: str) -> Url:
    """The URL in a text, or a BadUrlError that says what is wrong with it."""
    text = text.strip(" ")
    if len(text) > LONGEST_URL:
        raise BadUrlError("longer than 2,000 characters")
    if _FORBIDDEN.search(text):
        raise BadUrlError("control characters")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise BadUrlError(str(error)) from None
    if parts.scheme not in DEFAULT_PORTS:
        raise NotHttpError("not http or https")
    if "@" in parts.netloc:
        raise BadUrlError("a user name in the URL")
    if port == 0:
        raise BadUrlError("port 0")
    if re.match(r"!/?\w", parts.fragment):  # the server never sees what names the page
        raise BadUrlError("a page behind #!")
    return Url(
        parts.scheme,
        _host(parts.hostname or ""),
        DEFAULT_PORTS[parts.scheme] if port is None else port,
        _without_dots(respelled(parts.path or "/", kept=_KEPT_IN_PATH)),
        _without_tracking(respelled(parts.query, kept=_KEPT_IN_QUERY)),
    )


def respelled(text: str, kept: str, unescaped: str = "") -> str:
    """A part of a URL in the one spelling that all its spellings share (RFC 3986, 6.2.2).

    %7e → ~, %c3 → %C3, é → %C3%A9. Letters, digits and -._~ are never escaped, nor is what
    `unescaped` contains. What `kept` contains stays as it is: in a path, %2F is not a slash.
    """
    plain, literal = _UNRESERVED + unescaped, _UNRESERVED + unescaped + kept

    def respell(found: re.Match[str]) -> str:
        part = found[0]
        if len(part) == 3:
            character = chr(int(part[1:], 16))
            return character if character in plain else part.upper()
        octets = part.encode("utf-8", "surrogateescape")
        return part if part in literal else "".join(f"%{octet:02X}" for octet in octets)

    return _ESCAPE_OR_CHARACTER.sub(respell, text)


def _without_dots(path: str) -> str:
    """/a/./b/../c is /a/c, as in every browser (RFC 3986, 5.2.4)."""
    if "/." not in path:
        return path
    segments = path.split("/")[1:]
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return f"/{'/'.join(kept)}"


def _host(name: str) -> str:
    """A host name in ASCII. Addresses, private names and names without a dot are refused."""
    host = name.lower() if name.isascii() else _in_ascii(name)
    host = host.removesuffix(".")
    labels = host.split(".")
    if len(labels) < 2:
        raise BadUrlError("a host name without a dot")
    if not _TOP_LEVEL.fullmatch(labels[-1]):
        raise BadUrlError("an address instead of a host name")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise BadUrlError("invalid host name")
    if labels[-1] in _PRIVATE:
        raise BadUrlError("a private host name")
    return host


def _in_ascii(name: str) -> str:
    """A host name as browsers ask for it: by IDNA 2008 and UTS 46, non-transitional. Python's own
    codec is of IDNA 2003, in which straße.de is strasse.de, which may be somebody else's."""
    problem = f"{name}: host names beyond ASCII require idna."
    require("idna", problem=problem, to_install=EXTRA)
    import idna

    def label(text: str) -> str:
        try:
            return text if text.isascii() else idna.alabel(text).decode()
        except idna.InvalidCodepoint:  # symbols such as ☕, which are in use although IDNA 2008
            return f"xn--{text.encode('punycode').decode()}"  # does not know them

    try:
        return ".".join(map(label, idna.uts46_remap(name, std3_rules=False).split(".")))
    except UnicodeError:
        raise BadUrlError("invalid host name") from None


def _without_tracking(query: str) -> str:
    """Parameters stay in their order, as some servers need them."""
    kept = (part for part in query.split("&") if part)
    return "&".join(part for part in kept if not _TRACKING.fullmatch(part.split("=")[0].lower()))


def is_within(host: str, domains: frozenset[str]) -> bool:
    """Whether a host is one of the domains or below one of them."""
    if host in domains:
        return True
    _, dot, rest = host.partition(".")
    return bool(domains and dot) and is_within(rest, domains)


# --- addresses ---
# Host names and addresses: pages are fetched from the public internet only.
#
# A name is resolved once for a request, every address is checked, and the connection goes to a
# checked address. So neither a redirect nor a name server can lead a fetch to this machine or into
# a
# private network, not even a name server that answers differently the second time.

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
    inner = _inner(address)
    if inner:
        return all(is_public(str(each)) for each in inner)
    return address.is_global and address in _PUBLIC_IPV6


def _inner(address: ipaddress.IPv6Address) -> tuple[ipaddress.IPv4Address, ...]:
    """The IPv4 addresses inside an IPv6 address: mapped, 6to4, Teredo, NAT64."""
    if address in _NAT64:
        return (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
    found = address.ipv4_mapped or address.sixtofour
    return (found,) if found else address.teredo or ()


class Network:
    """The public internet. Tests replace it by a server on their own machine."""

    ports = (80, 443)

    def endpoints(self, host: str, port: int, timeout: float) -> list[Endpoint]:
        """Where to connect for a host; a FetchError unless all of its addresses are public."""
        if port not in self.ports:
            raise FetchError("port", f"port {port}")
        addresses = resolve(host, port, timeout)
        if private := [each for each in addresses if not is_public(each)]:
            raise FetchError("not_public", f"{host} is {private[0]}")
        return [(each, port) for each in addresses]


def resolve(host: str, port: int, timeout: float) -> list[str]:
    """The addresses of a host name. The system's resolver knows no time limit, so it gets a thread
    that may be left behind."""
    found: list[Any] = []

    def ask() -> None:
        try:
            found.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            found.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout)
    if not found:
        raise FetchError("timed_out", f"{host} was not resolved")
    if isinstance(found[0], Exception):
        raise FetchError("dns", f"{host} cannot be resolved")
    return list(dict.fromkeys(str(each[4][0]) for each in found[0]))
