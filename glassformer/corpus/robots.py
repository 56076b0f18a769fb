"""robots.txt: what a site forbids, by RFC 9309.

    User-agent: *           a group of rules for all programs; one that names ours takes precedence
    Disallow: /private/
    Allow: /private/open$   the longest rule that matches a path decides; $ is its end, * anything
    Crawl-delay: 10         not in the RFC, but widely used

Python's own `urllib.robotparser` takes the first rule that matches, and knows neither * nor $.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

LARGEST = 500 * 1024  # bytes, the least that the RFC asks to read
_MOST_RULES = 10_000
_LONGEST_RULE = 2_000  # characters
_KEPT = "%/:@!$&'()*+,;=~-._?[]|#"


@dataclass(frozen=True)
class Robots:
    """The rules of one site for one program."""

    rules: tuple[tuple[str, bool], ...] = ()
    """Patterns of paths, and whether they are allowed."""
    delay: float = 0.0

    def allows(self, target: str) -> bool:
        """Whether a path with its query may be fetched. Of equally long rules, Allow decides."""
        if target == "/robots.txt":
            return True
        found = [(len(rule), allow) for rule, allow in self.rules if _matches(rule, target)]
        return max(found)[1] if found else True


def parse_robots(content: bytes, program: str) -> Robots:
    """The rules for a program, such as "glassformer"."""
    own: list[tuple[str, str]] = []
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
                own.append((key, value))
            elif "*" in agents:
                others.append((key, value))
    return _robots(own if has_own else others)


def _lines(content: bytes) -> Iterator[tuple[str, str]]:
    text = content[:LARGEST].removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    for line in re.split(r"[\r\n]+", text):
        key, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield key.strip().lower(), value.strip()


def _is_named(program: str, agent: str) -> bool:
    """Only the product counts: "Glassformer/0.1" names glassformer."""
    return re.split(r"[/\s]", agent.lower(), maxsplit=1)[0] == program.lower()


def _robots(lines: list[tuple[str, str]]) -> Robots:
    rules, delay = [], 0.0
    for key, value in lines[:_MOST_RULES]:
        if key == "crawl-delay":
            if re.fullmatch(r"\d{1,9}(\.\d*)?", value):
                delay = max(delay, float(value))
        elif value and len(value) <= _LONGEST_RULE:  # an empty rule allows everything
            rules.append((quote(value, safe=_KEPT), key == "allow"))
    return Robots(tuple(rules), delay)


def _matches(rule: str, target: str) -> bool:
    """Piece by piece between the stars, each at the first place that it fits: no pattern takes
    longer than the product of both lengths, unlike a regular expression."""
    is_anchored = rule.endswith("$")
    first, *pieces = rule.removesuffix("$").split("*")
    if not target.startswith(first):
        return False
    at = len(first)
    for piece in pieces:
        found = target.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    if not is_anchored or at == len(target):
        return True
    return bool(pieces) and target.endswith(pieces[-1]) and at <= len(target)
