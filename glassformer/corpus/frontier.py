"""The links that wait to be fetched, one host at a time.

Workers take the next link of a host whose turn has come. A host has one worker at most, so that
many workers are busy with many hosts, and none waits for its turn behind another.
"""

import heapq
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from glassformer.corpus.politeness import Turns
from glassformer.corpus.urls import Url

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
