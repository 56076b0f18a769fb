"""robots.txt is read by the rules of RFC 9309."""

import time
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.corpus.politeness import parse_robots
from glassformer.corpus.urls import parse_url

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


# The rule, the path as a link spells it, and whether the rule is about this path. The first rows
# are the examples of RFC 9309, section 2.2.2; the others agree with protego.
SPELLINGS = [
    ("/foo/bar?baz=quz", "/foo/bar?baz=quz", True),
    ("/foo/bar?baz=http://foo.bar", "/foo/bar?baz=http%3A%2F%2Ffoo.bar", True),
    ("/foo/bar?baz=http%3a%2f%2ffoo.bar", "/foo/bar?baz=http://foo.bar", True),
    ("/foo/bar/\u30c4", "/foo/bar/%E3%83%84", True),
    ("/foo/bar/%e3%83%84", "/foo/bar/\u30c4", True),
    ("/foo/bar/%62%61%7A", "/foo/bar/baz", True),
    ("/~joe/", "/%7Ejoe/x", True),
    ("/~joe/", "/%7ejoe/x", True),
    ("/%7Ejoe/", "/~joe/x", True),
    ("/%7ejoe/", "/%7Ejoe/x", True),
    ("/private", "/p%72ivate", True),
    ("/p%72ivate", "/private", True),
    ("/a/../private", "/private", False),
    ("/private", "/a/%2e%2E/private", True),
    ("/a%2Fb", "/a%2fb", True),
    ("/a%2Fb", "/a/b", False),
    ("/a/b", "/a%2Fb", False),
    ("/Talk:", "/Talk%3AX", True),
    ("/Talk%3a", "/Talk:X", True),
    ("/a[1]", "/a%5B1%5D", True),
    ("/*?s[", "/x?s[]=1", True),
    ("/100%", "/100%25", True),
    ("/*.php$", "/a/%62.ph%70", True),
    ("/a%2A", "/ab", False),
    ("/a%2a", "/a*b", True),
    ("/a%24", "/a$b", True),
    ("/a$", "/a%24", False),
    ("/*/x", "/a?u=b/x", True),
]


@pytest.mark.parametrize(("rule", "link", "is_about"), SPELLINGS)
def test_a_path_and_a_rule_are_compared_in_the_same_spelling(
    rule: str, link: str, is_about: bool
) -> None:
    found = parse_robots(f"User-agent: *\nDisallow: {rule}".encode(), "x")
    assert found.allows(parse_url(f"http://a.org{link}").target) != is_about


def test_bytes_that_are_not_utf_8_are_compared_as_they_are() -> None:
    found = parse_robots(b"User-agent: *\nDisallow: /caf\xe9", "x")
    assert not found.allows("/caf%E9/1")
    assert found.allows("/caf%C3%A9/1")


@given(st.lists(st.sampled_from("abz~-./:=&?[(\u00e9\u30c4"), max_size=8), st.data())
def test_no_spelling_of_a_path_evades_its_rule(path: list[str], data: st.DataObject) -> None:
    def spelled() -> str:
        parts = (data.draw(st.sampled_from(_spellings(each))) for each in path)
        return f"/x/{''.join(parts)}"

    found = parse_robots(f"User-agent: *\nDisallow: {spelled()}\nAllow: /x".encode(), "x")
    assert not found.allows(spelled())


def _spellings(character: str) -> list[str]:
    """A slash has one spelling only; a question mark is a part of the path when it is escaped."""
    if character in "/?":
        return [character]
    escaped = quote(character, safe="")
    escaped = escaped if "%" in escaped else f"%{ord(character):02X}"
    return [character, escaped, escaped.lower()]


@pytest.mark.parametrize("agent", ["glassformer", "GlassFormer", "glassformer/2.0", "glassformer*"])
def test_a_group_names_the_program_in_any_case_and_version(agent: str) -> None:
    rules = f"User-agent: {agent}\nDisallow: /x\nUser-agent: *\nDisallow: /y"
    found = parse_robots(rules.encode(), "glassformer")
    assert (found.allows("/x"), found.allows("/y")) == (False, True)


@given(st.binary(max_size=300), st.text(max_size=30))
def test_any_bytes_are_read(content: bytes, target: str) -> None:
    parse_robots(b"User-agent: *\n" + content, "x").allows(f"/{target}")
