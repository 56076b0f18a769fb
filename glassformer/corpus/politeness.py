"""Politeness: a pause between requests to a host, and what its robots.txt allows."""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from glassformer.corpus.http import REDIRECTS, Client, FetchError, Response
from glassformer.corpus.urls import BadUrlError, Url, parse_url, respelled

# --- robots.txt: what a site forbids, by RFC 9309 ---
#
#     User-agent: *           rules for all programs; a group that names ours takes precedence
#     Disallow: /private/
#     Allow: /private/open$   the longest rule that matches a path decides; $ is its end, * anything
#     Disallow: /~joe         and /%7Ejoe: both sides are compared in the same spelling
#     Crawl-delay: 10         not in the RFC, but widely used
#
# Python's own `urllib.robotparser` takes the first rule that matches, and knows neither * nor $.
# protego tells http:// in a query from its escaped form, which the RFC does not, reads $ as an
# escaped dollar sign, too, and does not find the group of glassformer/2.0.

LARGEST = 500 * 1024  # bytes, the least that the RFC asks to read
_MOST_RULES = 10_000
_LONGEST_RULE = 2_000  # characters


@dataclass(frozen=True)
class Rule:
    """What a path looks like that is allowed or not."""

    spellings: tuple[tuple[str, ...], ...]
    """The pieces between its stars, in each spelling (see `_spellings`)."""
    is_anchored: bool
    """Whether a path ends with the last piece."""
    allow: bool

    @property
    def precedence(self) -> tuple[int, bool]:
        """The longest rule decides, with its stars and $. Of equally long ones, Allow decides."""
        return len("*".join(self.spellings[0])) + self.is_anchored, self.allow

    def matches(self, targets: Sequence[str]) -> bool:
        """Whether a path matches in one of its spellings."""
        pairs = zip(self.spellings, targets, strict=True)
        return any(_matches(pieces, self.is_anchored, target) for pieces, target in pairs)


@dataclass(frozen=True)
class Robots:
    """The rules of one site for one program."""

    rules: tuple[Rule, ...] = ()
    delay: float = 0.0

    def allows(self, target: str) -> bool:
        """Whether a path with its query may be fetched."""
        if target == "/robots.txt":
            return True
        targets = [_spelled(spelling) for spelling in _spellings(target)]
        matching = [rule.precedence for rule in self.rules if rule.matches(targets)]
        return max(matching)[1] if matching else True


def parse_robots(content: bytes, program: str) -> Robots:
    """The rules for a program, such as "glassformer"."""
    named: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    agents: list[str] = []
    is_new_group = True
    has_own = False
    for key, value in _lines(content):
        if key == "user-agent":
            agents = [] if is_new_group else agents
            agents.append(value.lower())
            is_new_group = False
            has_own |= _is_named(program, value)
            continue
        if key in ("allow", "disallow", "crawl-delay"):
            is_new_group = True
            if any(_is_named(program, agent) for agent in agents):
                named.append((key, value))
            elif "*" in agents:
                others.append((key, value))
    return _robots(named if has_own else others)


def _lines(content: bytes) -> Iterator[tuple[str, str]]:
    text = content[:LARGEST].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    for line in re.split(r"[\r\n]+", text):
        key, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield key.strip().lower(), value.strip()


def _is_named(program: str, agent: str) -> bool:
    """Only the product counts: "Glassformer/0.1" and "glassformer*" name glassformer."""
    return re.split(r"[/\s*]", agent.lower(), maxsplit=1)[0] == program.lower()


def _robots(lines: list[tuple[str, str]]) -> Robots:
    rules, delay = [], 0.0
    for key, value in lines[:_MOST_RULES]:
        if key == "crawl-delay":
            if re.fullmatch(r"\d{1,9}(\.\d*)?", value):
                delay = max(delay, float(value))
        elif value and len(value) <= _LONGEST_RULE:  # an empty rule allows everything
            rules.append(_rule(value, key == "allow"))
    return Robots(tuple(rules), delay)


def _rule(value: str, allow: bool) -> Rule:
    patterns = _spellings(value.removesuffix("$"))
    spellings = (tuple(map(_spelled, pattern.split("*"))) for pattern in patterns)
    return Rule(tuple(spellings), value.endswith("$"), allow)


def _spellings(text: str) -> tuple[str, str]:
    """A path as it is, in which %2F is not a slash, and with the slashes of its query escaped:
    there, they separate nothing, and ?u=http://a.org is ?u=http%3A%2F%2Fa.org."""
    path, mark, query = text.partition("?")
    return text, f"{path}{mark}{query.replace('/', '%2F')}"


def _spelled(text: str) -> str:
    """All reserved characters are escaped, except the slash and, as in the RFC's table, =."""
    return respelled(text, kept="/", unescaped="=")


def _matches(pieces: Sequence[str], is_anchored: bool, target: str) -> bool:
    """Piece by piece between the stars, each at the first place that it fits: no pattern takes
    longer than the product of both lengths, unlike a regular expression."""
    first, *others = pieces
    if not target.startswith(first):
        return False
    at = len(first)
    for piece in others:
        at = target.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    if not is_anchored or at == len(target):
        return True
    return bool(others) and target.endswith(others[-1])


# --- turns ---

LONGEST_DELAY = 60.0  # seconds that robots.txt may ask for
MOST_REDIRECTS = 5
_REMEMBERED = 10_000  # sites

Origin = tuple[str, str, int]


class Turns:
    """When each host may be asked again. Requests to a host are at least a delay apart, whoever
    makes them."""

    def __init__(self, stopping: threading.Event) -> None:
        self._next: dict[str, float] = {}
        self._lock, self._stopping = threading.Lock(), stopping

    def wait(self, host: str, delay: float) -> None:
        """Wait for a turn of the host."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next.get(host, now))
            self._next[host] = turn + delay
            if len(self._next) > _REMEMBERED:
                self._next = {name: when for name, when in self._next.items() if when > now}
        if self._stopping.wait(max(0.0, turn - now)):
            raise FetchError("timed_out")

    def next_turn(self, host: str) -> float:
        """When the host may be asked again."""
        with self._lock:
            return self._next.get(host, 0.0)

    def postpone(self, host: str, seconds: float) -> None:
        """Lengthen the pause that has begun."""
        with self._lock:
            self._next[host] = max(self._next.get(host, 0.0), time.monotonic() + seconds)


class Politeness:
    """Asks each site for its robots.txt once, and keeps to it."""

    def __init__(self, client: Client, delay: float, timeout: float) -> None:
        self._client, self._delay, self._timeout = client, delay, timeout
        self._program = client.user_agent.split("/")[0].split()[0]
        self.turns = Turns(client.stopping)
        self._sites: OrderedDict[Origin, Robots | FetchError] = OrderedDict()
        self._lock = threading.Lock()

    def wait_for(self, url: Url) -> None:
        """Wait until a page may be fetched; a FetchError if it may not be fetched at all."""
        robots = self._robots((url.scheme, url.host, url.port))
        if not robots.allows(url.target):
            raise FetchError("robots", f"{url.netloc}/robots.txt")
        if robots.delay > LONGEST_DELAY:
            raise FetchError("crawl_delay", f"{robots.delay:g} s")
        delay = max(self._delay, robots.delay)
        self.turns.wait(url.domain, delay)

    def _robots(self, origin: Origin) -> Robots:
        with self._lock:
            robots = self._sites.get(origin)
        if robots is None:
            try:
                robots = self._fetched(Url(*origin, "/robots.txt", ""))
            except FetchError as error:
                robots = error
            if not self._client.stopping.is_set():
                with self._lock:
                    self._sites[origin] = robots
                    if len(self._sites) > _REMEMBERED:
                        self._sites.popitem(last=False)
            if isinstance(robots, Robots) and robots.delay <= LONGEST_DELAY:
                self.turns.postpone(origin[1].removeprefix("www."), robots.delay)
        if isinstance(robots, FetchError):
            raise FetchError(robots.outcome, robots.detail)
        return robots

    def _fetched(self, url: Url) -> Robots:
        """Redirects are followed. A missing file allows everything; a failing server forbids it."""
        for _ in range(MOST_REDIRECTS + 1):
            self.turns.wait(url.domain, self._delay)
            response = self._client.get(url, self._timeout, LARGEST, cut=True)
            if response.status not in REDIRECTS:
                break
            try:
                url = redirected(url, response)
            except FetchError:
                return Robots()
        if 200 <= response.status < 300:
            return parse_robots(response.body, self._program)
        if response.status == 429 or response.status >= 500:
            raise FetchError("robots_unreachable", f"status {response.status}")
        return Robots()


def redirected(url: Url, response: Response) -> Url:
    """Where a redirect leads."""
    location = response.header("Location").encode("latin-1", "replace").decode("utf-8", "replace")
    if not location:
        raise FetchError(f"http_{response.status}", "a redirect without a location")
    try:
        return parse_url(urljoin(str(url), location))
    except (BadUrlError, ValueError) as error:
        raise FetchError("bad_redirect", f"{location[:200]}: {error}") from None
