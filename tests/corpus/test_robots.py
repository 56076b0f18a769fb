"""robots.txt is read by the rules of RFC 9309."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.corpus.robots import parse_robots

RULES = """
# a comment
User-agent: *
Disallow: /fish
Allow: /fish/salmon
Disallow: /*.php$
Disallow: /caf\u00e9
Disallow: /a*/b*/c

User-Agent: OtherBot
Disallow: /

user-agent: glassformer/1.0
User-agent: third
Disallow: /own  # with a comment
Crawl-delay: 2.5
Sitemap: https://a.org/sitemap.xml
Allow:
"""


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/", True),
        ("/fish", False),
        ("/fishing?x=1", False),
        ("/Fish", True),
        ("/fish/salmon/pink", True),
        ("/index.php", False),
        ("/index.php.php", False),
        ("/index.php?x", True),
        ("/caf%C3%A9/x", False),
        ("/ax/bx/c", False),
        ("/ax/c/b", True),
        ("/robots.txt", True),
    ],
)
def test_the_longest_rule_decides(target: str, expected: bool) -> None:
    assert parse_robots(RULES.encode(), "somebody").allows(target) == expected


def test_a_group_that_names_the_program_takes_precedence() -> None:
    found = parse_robots(RULES.encode(), "Glassformer")
    assert (found.allows("/own"), found.allows("/fish"), found.delay) == (False, True, 2.5)
    assert not parse_robots(RULES.encode(), "otherbot").allows("/anything")
    assert not parse_robots(RULES.encode(), "THIRD").allows("/own")


def test_groups_of_the_same_program_are_one_group() -> None:
    text = b"User-agent: a\nDisallow: /1\nUser-agent: b\nDisallow: /2\nUser-agent: a\nDisallow: /3"
    found = parse_robots(text, "a")
    assert [found.allows(target) for target in ("/1", "/2", "/3")] == [False, True, False]


def test_of_equally_long_rules_allow_decides() -> None:
    text = b"User-agent: *\nDisallow: /page\nAllow: /page"
    assert parse_robots(text, "a").allows("/page/1")


def test_any_line_ends_and_marks_are_read() -> None:
    text = b"\xef\xbb\xbfUser-agent : *\rDisallow:/x\r\n\r\nDisallow: /y"
    found = parse_robots(text, "a")
    assert not found.allows("/x")
    assert not found.allows("/y")


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    found = parse_robots(b"User-agent: *\nDisallow: /" + b"*a" * 900 + b"b$", "x")
    begin = time.monotonic()
    assert found.allows("/" + "a" * 2_000)
    assert time.monotonic() - begin < 1


@given(st.binary(max_size=300), st.text(max_size=30))
def test_any_bytes_are_read(content: bytes, target: str) -> None:
    parse_robots(b"User-agent: *\n" + content, "x").allows(f"/{target}")
