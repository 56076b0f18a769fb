"""Politeness: a pause between requests to a host, and what its robots.txt allows."""

import threading
import time
from collections import OrderedDict
from urllib.parse import urljoin

from glassformer.corpus.http_request import REDIRECTS, Client, Response
from glassformer.corpus.outcomes import FetchError
from glassformer.corpus.robots import LARGEST, Robots, parse_robots
from glassformer.corpus.urls import BadUrlError, Url, parse_url

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
