"""URLs: normalized, compared, and refused when they cannot lead to a public page."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.corpus.urls import BadUrlError, NotHttpError, is_within, parse_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTP://WWW.Example.ORG:80/A/b?x=1#top", "http://www.example.org/A/b?x=1"),
        ("https://example.org:443", "https://example.org/"),
        ("https://example.org:8443/x", "https://example.org:8443/x"),
        ("http://example.org./", "http://example.org/"),
        ("http://a.org/?utm_source=x&id=3&UTM_Medium=y&fbclid=z", "http://a.org/?id=3"),
        ("http://a.org/?b=1&a=2&a=1", "http://a.org/?b=1&a=2&a=1"),
        ("http://a.org/?utm=1&gclids=2", "http://a.org/?utm=1&gclids=2"),
        ("http://a.org/a b/é?q=ü z", "http://a.org/a%20b/%C3%A9?q=%C3%BC%20z"),
        ("http://a.org/%E9/x%20y", "http://a.org/%E9/x%20y"),
        ("http://a.org/%7Ejoe/%c3%a9/%41%2f%3A", "http://a.org/~joe/%C3%A9/A%2F%3A"),
        ("http://a.org/x?a=%7e&b=%2f", "http://a.org/x?a=~&b=%2F"),
        ("http://a.org/x?utm%5Fsource=y&b=1", "http://a.org/x?b=1"),
        ("http://a.org/100%/%zz/%%341", "http://a.org/100%25/%25zz/%2541"),
        ("http://a.org/a/../b", "http://a.org/b"),
        ("http://a.org/a/%2E%2e/./b/..", "http://a.org/"),
        ("http://a.org/../a/./", "http://a.org/a/"),
        ("http://a.org/.a/..b/...", "http://a.org/.a/..b/..."),
        ("http://bücher.de/", "http://xn--bcher-kva.de/"),
        ("http://straße.de/", "http://xn--strae-oqa.de/"),
        ("http://WWW.FAẞ.de/", "http://www.xn--fa-hia.de/"),
        ("http://βόλος.com/", "http://xn--nxasmm1c.com/"),
        ("http://ＥＸＡＭＰＬＥ。org./", "http://example.org/"),
        ("http://i❤.ws/", "http://xn--i-7iq.ws/"),
        ("http://XN--STRAE-OQA.de/", "http://xn--strae-oqa.de/"),
        ("http://my_blog.tumblr.com/", "http://my_blog.tumblr.com/"),
        ("http://a.org/x#!", "http://a.org/x"),
    ],
)
def test_a_url_is_normalized(text: str, expected: str) -> None:
    url = parse_url(text)
    assert str(url) == expected
    assert str(parse_url(str(url))) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("http://localhost/", "http://intranet/x", "http://nas.local/", "http://a.internal/"),
        *("http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f.0.0.1/"),
        *("http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://192.168.0.1:80/", "http://[x/"),
        *("http://user@a.org/", "http://user:password@a.org/", "http://a.org@127.0.0.1/"),
        *("http://a.org/\r\nHost: b", "http://a.org/\x00", "http://a.org\\@b.org/"),
        *("http://a.org:99999/", "http://a.org:x/", "http://a.org:0/", "http:///x", "http://"),
        *("http://a..org/", "http://-.org/", "http://a b.org/", f"http://{'a' * 64}.org/"),
        *("http://a\u200db.org/", "http://-ü.org/", "http://א1a.org/", "http://\u0301a.org/"),
        *("http://a\ufffdü.org/", f"http://{'ü' * 60}.org/", "http://a.org/\ud800"),
        f"http://a.org/{'x' * 2000}",
        "http://twitter.com/#!/someone/status/1",
    ],
)
def test_a_url_that_leads_to_no_public_page_is_refused(text: str) -> None:
    with pytest.raises(BadUrlError):
        parse_url(text)


@pytest.mark.parametrize(
    "text", ["ftp://a.org/", "mailto:a@b.org", "javascript:x", "/r/a", "a.org"]
)
def test_other_kinds_of_urls_are_told_apart(text: str) -> None:
    with pytest.raises(NotHttpError):
        parse_url(text)


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("http://www.a.org/x/", "https://a.org/x", True),
        ("http://a.org/", "http://a.org", True),
        ("http://a.org/x?y=1#z", "http://a.org/x/?y=1", True),
        ("http://a.org/X", "http://a.org/x", False),
        ("http://a.org/x?y=1", "http://a.org/x?y=2", False),
        ("http://b.a.org/x", "http://a.org/x", False),
        ("http://a.org:8080/", "http://a.org/", False),
        ("http://a.org/%7Ejoe", "http://a.org/~joe/", True),
        ("http://a.org/%c3%a9", "http://a.org/é", True),
        ("http://a.org/a/../b", "http://a.org/b", True),
        ("http://a.org/a%2Fb", "http://a.org/a/b", False),
        ("http://a.org/x?a=1&b=2", "http://a.org/x?b=2&a=1", False),
        ("http://straße.de/", "http://strasse.de/", False),
        ("http://straße.de/", "http://xn--strae-oqa.de/", True),
    ],
)
def test_the_same_page_has_the_same_key(one: str, other: str, are_same: bool) -> None:
    assert (parse_url(one).key == parse_url(other).key) == are_same


def test_a_domain_contains_its_subdomains_only() -> None:
    domains = frozenset({"a.org", "co.uk"})
    assert is_within("a.org", domains)
    assert is_within("x.y.a.org", domains)
    assert not is_within("ba.org", domains)
    assert not is_within("org", domains)


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    for candidate in (text, f"http://{text}", f"http://a.org/{text}"):
        try:
            url = parse_url(candidate)
        except BadUrlError:
            continue
        assert str(url).isascii()
        assert not set(str(url)) & set(" \r\n\t\0")
        assert parse_url(str(url)) == url
