"""URLs: which ones lead to a page on the public web, and when two of them are the same page.

HTTP://www.Example.org:80/b/../%7ea/?utm_source=x&id=3#top     as posted
http://www.example.org/~a/?id=3                                as it is fetched
example.org/~a?id=3                                            the key: equal for the same page

A URL has one spelling: duplicates, robots.txt and the requests themselves use the same function.
"""

import re
import string
from dataclasses import dataclass
from urllib.parse import urlsplit

from glassformer.corpus import EXTRA
from glassformer.errors import require

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
_PRIVATE = re.compile(
    r"local|localhost|internal|intranet|lan|home|corp|onion|arpa|test|invalid|example"
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

    def respell(match: re.Match[str]) -> str:
        part = match[0]
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
    if _PRIVATE.fullmatch(labels[-1]):
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
