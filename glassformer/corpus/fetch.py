"""From links to pages: a polite fetch into WARC files, which can be stopped at any moment.

Workers take links from the frontier, each from another host, wait for their turn, and fetch. Every
link ends in exactly one outcome, which is on disk before the next link of its host is taken.
"""

import hashlib
import heapq
import json
import math
import re
import ssl
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from glassformer import __version__
from glassformer.corpus import EXTRA, http, in_columns
from glassformer.corpus.http import HTTP, FetchError
from glassformer.corpus.links import LINKS, link_in
from glassformer.corpus.page_store import LARGEST_FILE, PageStore
from glassformer.corpus.politeness import MOST_REDIRECTS, Politeness, Turns, redirected
from glassformer.corpus.urls import BadUrlError, Url, parse_url
from glassformer.corpus.warc import Page
from glassformer.errors import GlassformerError, UsageError, require
from glassformer.files import MANIFEST, locked
from glassformer.progress import ProgressLine, bar
from glassformer.wording import cause, clock

# --- the frontier: links that wait to be fetched, one host at a time ---
#
# Workers take the next link of a host whose turn has come. A host has one worker at most, so that
# many workers are busy with many hosts, and none waits for its turn behind another.

WINDOW = 100_000  # links in memory


class Link(NamedTuple):
    """A line of links.jsonl that can be fetched."""

    number: int
    text: str
    """The URL as it is written there."""
    url: Url


class Frontier:
    """Hands out links, in their order for each host."""

    def __init__(self, links: Iterator[Link], turns: Turns, window: int = WINDOW) -> None:
        self._links, self._turns, self._window = links, turns, window
        self._waiting: dict[str, deque[Link]] = {}
        self._ready: list[tuple[float, int, str]] = []  # when, the number of the link, host
        self._num_waiting = self._num_busy = 0
        self._has_more, self._is_closed = True, False
        self._changed = threading.Condition()

    def take(self) -> Link | None:
        """The next link; None when there are no more. Waits for the turn of a host."""
        with self._changed:
            while not self._is_closed:
                self._fill()
                now = time.monotonic()
                if self._ready and self._ready[0][0] <= now:
                    _, _, host = heapq.heappop(self._ready)
                    self._num_waiting -= 1
                    self._num_busy += 1
                    return self._waiting[host].popleft()
                if not self._ready and not self._num_busy and not self._has_more:
                    self._changed.notify_all()
                    return None
                self._changed.wait(self._ready[0][0] - now if self._ready else None)
            return None

    def done(self, link: Link) -> None:
        """A link that was taken has been dealt with: the next one of its host may follow."""
        with self._changed:
            self._num_busy -= 1
            host = link.url.domain
            if queue := self._waiting[host]:
                when = self._turns.next_turn(host)
                heapq.heappush(self._ready, (when, queue[0].number, host))
            else:
                del self._waiting[host]
            self._changed.notify_all()

    def close(self) -> None:
        """Hand out nothing more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _fill(self) -> None:
        while self._has_more and self._num_waiting < self._window:
            link = next(self._links, None)
            if link is None:
                self._has_more = False
                return
            self._num_waiting += 1
            host = link.url.domain
            if host not in self._waiting:
                self._waiting[host] = deque()
                heapq.heappush(self._ready, (self._turns.next_turn(host), link.number, host))
            self._waiting[host].append(link)


# --- the fetch ---

_GRACE = 3.0  # seconds for workers to end
_FEW = 5  # links that say the same, if there are no more
_ENOUGH = 50  # links of which one should be reached, if this machine is online


@dataclass(frozen=True)
class FetchSettings:
    """How pages are fetched."""

    workers: int = 16
    delay: float = 1.0
    timeout: float = 30.0
    max_page_size: int = 10**7
    user_agent: str = f"glassformer/{__version__}"
    contact: str = ""
    limit: int | None = None
    warc_size: int = LARGEST_FILE

    def __post_init__(self) -> None:
        if not 0 <= self.delay < math.inf:
            raise UsageError(f"--delay {self.delay} is not a number of seconds.")
        if not 0 < self.timeout < math.inf:
            raise UsageError(f"--timeout {self.timeout} is not a number of seconds above 0.")
        for name, text in (("user-agent", self.user_agent), ("contact", self.contact)):
            if not re.fullmatch(r"[\x20-\x7e]*", text):
                raise UsageError(f"--{name} may contain only ASCII characters on one line.")
        if not re.match(r"[A-Za-z_-]+", self.user_agent):
            raise UsageError(
                f'--user-agent "{self.user_agent}" must begin with a name, by which robots.txt '
                "knows it, such as mybot/1.0."
            )

    @property
    def signature(self) -> str:
        """The header `User-Agent`."""
        return f"{self.user_agent} ({self.contact})" if self.contact else self.user_agent


@dataclass(frozen=True)
class Fetched:
    """What became of the links."""

    links: int
    outcomes: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        counts = {name: self.outcomes.get(name, 0) for name in http.OUTCOMES}
        statuses = {name: count for name, count in self.outcomes.items() if name.startswith(HTTP)}
        return {
            "links": self.links,
            "fetched": counts["fetched"],
            "outcomes": counts | dict(sorted(statuses.items())),
        }

    def text(self) -> str:
        outcomes: dict[str, int] = self.as_json()["outcomes"]
        rows = ((name, count, http.described(name)) for name, count in outcomes.items() if count)
        return in_columns(("links", self.links, ""), *rows)


def fetch_pages(
    links: Path,
    out: Path,
    settings: FetchSettings,
    retry: bool = False,
    network: http.Network | None = None,
    stream: TextIO | None = None,
) -> Fetched:
    """Fetch the pages of the links in a folder into the folder `out`, or continue with it. With
    `retry`, links that could not be reached are tried again."""
    require("warcio", problem="pages are written by warcio.", to_install=EXTRA)
    import warcio.warcwriter  # noqa: F401  # now: otherwise the first pages wait for it

    file = links / LINKS if links.is_dir() else links
    digest, total = _examined(file)
    total = total if settings.limit is None else min(total, settings.limit)
    about = {
        "links_sha256": digest,
        "user_agent": settings.signature,
        "settings": {name: value for name, value in vars(settings).items() if name != "limit"},
    }
    with locked(out, "fetched"):
        store = PageStore(out, about, settings.warc_size, retry)
        try:
            with ProgressLine(stream or sys.stderr, keeps_last=True) as line:
                if done := sum(store.done):
                    line.write(f"continuing: {done:,} of {total:,} links are done.")
                _Fetch(file, total, settings, network or http.Network(), store).run(line)
        finally:
            store.close()
        store.complete()
    return Fetched(sum(store.counts.values()), dict(store.counts))


def _examined(file: Path) -> tuple[str, int]:
    """The hash of a file of links and the number of its lines, if it is as it was written."""
    digest, count = hashlib.sha256(), 0
    try:
        with file.open("rb") as stream:
            for line in stream:
                digest.update(line)
                count += 1
    except FileNotFoundError:
        raise GlassformerError(
            f"{file} does not exist. Write it with glassformer corpus links."
        ) from None
    except OSError as error:
        raise GlassformerError(f"{file} cannot be read: {cause(error)}.") from None
    if not count:
        raise GlassformerError(f"{file} is empty. Collect links with a lower --min-score.")
    manifest = file.with_name(MANIFEST)
    if manifest.is_file():
        try:
            saved = json.loads(manifest.read_text(encoding="utf-8"))["files"][file.name]["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            raise GlassformerError(f"{manifest} is damaged. Collect the links again.") from None
        if saved != digest.hexdigest():
            raise GlassformerError(
                f"{file} is damaged: it differs from what was written. Collect the links again, "
                f"or delete {manifest} if you changed it on purpose."
            )
    return digest.hexdigest(), count


def _status(done: int, total: int, fetched: int, speed: float, has_bar: bool) -> str:
    """120/7,108 ▰▱▱▱▱▱▱▱▱▱ fetched 101 (84%) 14.2 links/s ETA 8:12"""
    parts = [f"{done:,}/{total:,}"]
    if has_bar:
        parts.append(bar(done, total))
    parts.append(f"fetched {fetched:,} ({fetched / max(1, done):.0%})")
    if speed:
        parts.append(f"{speed:.1f} links/s ETA {clock((total - done) / speed)}")
    return " ".join(parts)


class _Fetch:
    """Workers, and what they share."""

    def __init__(
        self,
        file: Path,
        total: int,
        settings: FetchSettings,
        network: http.Network,
        store: PageStore,
    ) -> None:
        self._file, self._total, self._settings, self._store = file, total, settings, store
        self._stopping = threading.Event()
        self._client = http.Client(
            settings.signature, network, ssl.create_default_context(), self._stopping
        )
        self._politeness = Politeness(self._client, settings.delay, settings.timeout)
        self._frontier = Frontier(self._links(), self._politeness.turns)
        self._problem: BaseException | None = None

    def run(self, line: ProgressLine) -> None:
        before, begin = self._store.snapshot(), time.monotonic()
        count = min(self._settings.workers, max(1, self._total))
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        try:
            for worker in workers:
                worker.start()
            while any(worker.is_alive() for worker in workers) and self._problem is None:
                next(worker for worker in workers if worker.is_alive()).join(0.2)
                counts = self._store.snapshot()
                done, seconds = sum(counts.values()), time.monotonic() - begin
                speed = (done - sum(before.values())) / max(seconds, 1e-9)
                has_bar = line.is_terminal
                status = _status(done, self._total, counts["fetched"], speed, has_bar)
                line.show(status, done, self._total)
                _check_online(counts - before)
            _check_online(self._store.snapshot() - before, enough=_FEW)
        finally:
            self._stopping.set()
            self._frontier.close()
            end = time.monotonic() + _GRACE
            for worker in workers:
                if worker.ident is not None:
                    worker.join(max(0.0, end - time.monotonic()))
        if self._problem is not None:
            raise self._problem

    def _links(self) -> Iterator[Link]:
        """The links without an outcome. A URL that cannot be fetched gets its outcome here."""
        done = self._store.done
        with self._file.open("rb") as stream:
            for number, line in enumerate(stream):
                if number >= self._total:
                    return
                if number < len(done) and done[number]:
                    continue
                text = link_in(line, f"{self._file}:{number + 1}")["url"]
                try:
                    yield Link(number, text, parse_url(text))
                except BadUrlError as error:
                    self._store.add(number, text, "bad_url", str(error), None)

    def _work(self) -> None:
        try:
            while (link := self._frontier.take()) is not None:
                outcome, detail, page = self._outcome(link.url)
                if self._stopping.is_set():
                    return
                self._store.add(link.number, link.text, outcome, detail, page)
                self._frontier.done(link)
        except BaseException as error:
            self._problem = error

    def _outcome(self, url: Url) -> tuple[str, str, Page | None]:
        try:
            return "fetched", "", self._page(url)
        except FetchError as error:
            return error.outcome, error.detail, None

    def _page(self, url: Url) -> Page:
        """Follow redirects, each of which is checked like the first URL. The time limit is for all
        of them together, without the pauses between them."""
        left = self._settings.timeout
        for _ in range(MOST_REDIRECTS + 1):
            self._politeness.wait_for(url)
            begin = time.monotonic()
            response = self._client.get(url, left, self._settings.max_page_size, http.PAGES)
            left -= time.monotonic() - begin
            if response.status in http.REDIRECTS:
                url = redirected(url, response)
                continue
            if response.status != 200:
                raise FetchError(f"{HTTP}{response.status}", response.reason)
            return Page(url, self._client.headers(url), response)
        raise FetchError("redirects", str(url))


def _check_online(counts: Counter[str], enough: int = _ENOUGH) -> None:
    total = sum(counts.values())
    if total >= enough and total == sum(counts[outcome] for outcome in http.UNREACHABLE):
        raise GlassformerError(
            f"none of {total:,} links can be reached. Check the connection of this "
            "machine, then run the same command with --retry."
        )
