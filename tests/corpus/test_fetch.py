"""Fetching pages: every link ends in one outcome, whatever the server does."""

import gzip
import random
import shutil
import socket
import ssl
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from small_web import SmallWeb, dripping, gzipped, outcomes, page, redirect, stored

from glassformer.corpus.fetch import FetchSettings, fetch_pages
from glassformer.corpus.http import FetchError, Network, is_public
from glassformer.errors import UsageError

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def web() -> Iterator[SmallWeb]:
    found = SmallWeb()
    yield found
    found.close()


# --- pages that arrive ---


def test_pages_are_read_by_other_tools_with_all_digests(web: SmallWeb, tmp_path: Path) -> None:
    latin = "<p>Café</p>".encode("latin-1")
    web.pages["a.org/"] = page("<p>Ümlaut.</p>")
    web.pages["b.org/x?y=1"] = page(latin, kind="text/html; charset=iso-8859-1")
    web.pages["c.org/zip"] = gzipped(b"<p>zipped</p>" * 100)
    web.pages["d.org/old"] = redirect("http://e.org/new")
    web.pages["e.org/new"] = CHUNKED + b"5\r\nHello\r\n3\r\n !!\r\n0\r\n\r\n"
    urls = ["http://a.org/", "http://b.org/x?y=1", "http://c.org/zip", "http://d.org/old"]
    found = web.fetch(tmp_path, *urls)
    assert found.as_json()["fetched"] == 4
    assert stored(tmp_path / "pages") == dict(
        zip(
            urls,
            ["<p>Ümlaut.</p>".encode(), latin, b"<p>zipped</p>" * 100, b"Hello !!"],
            strict=True,
        )
    )
    file = tmp_path / "pages" / "pages-00000.warc.gz"
    checked = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", "-v", str(file)],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("digest pass") >= 4


def test_a_page_after_a_redirect_keeps_the_url_of_its_link(web: SmallWeb, tmp_path: Path) -> None:
    from warcio.archiveiterator import ArchiveIterator

    web.pages |= {"a.org/": redirect("https-is-far/../b?c=d"), "a.org/b?c=d": page()}
    web.fetch(tmp_path, "http://a.org/")
    with (tmp_path / "pages" / "pages-00000.warc.gz").open("rb") as stream:
        kinds = {
            record.rec_type: (
                record.rec_headers.get_header("WARC-Target-URI"),
                record.rec_headers.get_header("X-Link"),
            )
            for record in ArchiveIterator(stream)
        }
    assert list(kinds) == ["warcinfo", "response", "request"]
    assert kinds["response"] == ("http://a.org/b?c=d", "http://a.org/")


def test_sites_learn_who_asks(web: SmallWeb, tmp_path: Path) -> None:
    web.fetch(tmp_path, "http://a.org:80/x", user_agent="bot/2", contact="https://me.org")
    assert {fields["User-Agent"] for _, _, fields in web.asked} == {"bot/2 (https://me.org)"}
    assert [url for _, url, _ in web.asked] == ["a.org/robots.txt", "a.org/x"]


def test_a_user_agent_cannot_smuggle_headers() -> None:
    for wrong in ({"contact": "a\r\nCookie: b"}, {"user_agent": "bät"}, {"user_agent": "(x)"}):
        with pytest.raises(UsageError, match=r"--(contact|user-agent)"):
            FetchSettings(**wrong)


# --- pages that do not ---


def silence() -> Iterator[bytes]:
    time.sleep(3)
    yield b""


def endless() -> Iterator[bytes]:
    yield CHUNKED
    while True:
        yield b"10000\r\n" + b"x" * 2**16 + b"\r\n"


BOMB = gzip.compress(b"\0" * 20_000_000)
FAILURES: dict[str, tuple[Any, str]] = {
    "missing": (page("", "404 Not Found"), "http_404"),
    "failing": (page("", "503 Busy"), "http_503"),
    "no location": (page("", "301 Moved"), "http_301"),
    "an image": (page(b"\x89PNG", kind="image/png"), "bad_type"),
    "no type": (b"HTTP/1.1 200 OK\r\n\r\nhello", "bad_type"),
    "large": (page(b"x" * 1_000_001), "too_large"),
    "endless": (endless(), "too_large"),
    "gzip bomb": (gzipped(b"\0" * 20_000_000), "too_large"),
    "bomb in a bomb": (page(BOMB + BOMB, Content_Encoding="gzip"), "too_large"),
    "truncated gzip": (page(gzip.compress(b"x" * 9999)[:-9], Content_Encoding="gzip"), "broken"),
    "not gzip": (page("plain", Content_Encoding="gzip"), "broken"),
    "not deflate": (page(b"\xff\xff\xff", Content_Encoding="deflate"), "broken"),
    "another encoding": (page("plain", Content_Encoding="br"), "broken"),
    "short": (page("short").replace(b"Length: 5", b"Length: 50"), "broken"),
    "bad chunk": (CHUNKED + b"zz\r\nHello\r\n", "broken"),
    "missing chunk": (CHUNKED + b"50\r\nHello", "broken"),
    "not HTTP": (b"SSH-2.0-OpenSSH_9\r\n", "broken"),
    "nothing": (b"", "broken"),
    "many headers": (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n", "broken"),
    "a long header": (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 100_000 + b"\r\n\r\n", "broken"),
    "to this machine": (redirect("http://127.0.0.1/"), "bad_redirect"),
    "to this machine, in hex": (redirect("http://0x7f.1/"), "bad_redirect"),
    "to this machine, in IPv6": (redirect("http://[::1]/"), "bad_redirect"),
    "to a file": (redirect("file:///etc/passwd"), "bad_redirect"),
    "to a password": (redirect("http://user:pw@b.org/"), "bad_redirect"),
    "in a circle": (redirect("http://a.org/"), "redirects"),
    "silent": (silence(), "timed_out"),
    "dripping": (dripping(page("x" * 100)), "timed_out"),
    "dripping headers": (dripping(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 90), "timed_out"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_bad_response_has_its_own_outcome(case: str, web: SmallWeb, tmp_path: Path) -> None:
    web.pages["a.org/"], outcome = FAILURES[case]
    begin = time.monotonic()
    found = web.fetch(tmp_path, "http://a.org/", timeout=0.4, max_page_size=10**6)
    assert outcomes(tmp_path / "pages") == {"http://a.org/": outcome}
    assert found.as_json()["outcomes"][outcome] == 1
    assert time.monotonic() - begin < 2
    assert stored(tmp_path / "pages") == {}


def test_deflate_with_and_without_its_header_is_read(web: SmallWeb, tmp_path: Path) -> None:
    text = b"<p>deflated</p>" * 50
    raw = zlib.compressobj(wbits=-15)
    web.pages["a.org/"] = page(zlib.compress(text), Content_Encoding="deflate")
    web.pages["b.org/"] = page(raw.compress(text) + raw.flush(), Content_Encoding="deflate")
    web.fetch(tmp_path, "http://a.org/", "http://b.org/")
    assert stored(tmp_path / "pages") == {"http://a.org/": text, "http://b.org/": text}


# --- the public internet only ---


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        *((each, True) for each in ("8.8.8.8", "2001:4860:4860::8888", "2a00:1450:4001::1")),
        *((each, True) for each in ("::ffff:8.8.8.8", "2002:808:808::1", "64:ff9b::808:808")),
        *((each, False) for each in ("127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1")),
        *((each, False) for each in ("169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1")),
        *((each, False) for each in ("255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1")),
        *((each, False) for each in ("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fec0::1")),
        *((each, False) for each in ("::ffff:127.0.0.1", "::127.0.0.1", "2002:7f00:1::1")),
        *((each, False) for each in ("64:ff9b::7f00:1", "64:ff9b:1::1", "2001:db8::1", "ff0e::1")),
        *((each, False) for each in ("2001:0:808:808:0:0:80ff:fffe", "example.org", "")),
    ],
)
def test_only_public_addresses_are_public(address: str, expected: bool) -> None:
    assert is_public(address) == expected


def answers(monkeypatch: pytest.MonkeyPatch, *addresses: list[str]) -> list[str]:
    """Let the resolver answer with these, one after the other. Returns who was asked for."""
    asked: list[str] = []

    def resolve(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        found = addresses[min(len(asked), len(addresses)) - 1]
        return [(socket.AF_INET, 1, 6, "", (each, port)) for each in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


@pytest.mark.parametrize("found", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:10.0.0.1"]])
def test_a_name_with_a_private_address_is_not_fetched(
    found: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers(monkeypatch, found)
    monkeypatch.setattr(socket, "create_connection", None)  # would fail
    links = tmp_path / "links.jsonl"
    links.write_text('{"url": "http://inside.org/"}\n')
    fetch_pages(links, tmp_path / "pages", FetchSettings())
    assert outcomes(tmp_path / "pages") == {"http://inside.org/": "not_public"}


def test_the_address_that_was_checked_is_the_one_that_is_used(
    web: SmallWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that answers 127.0.0.1 the second time is not asked a second time."""
    asked = answers(monkeypatch, ["8.8.8.8"], ["127.0.0.1"])
    assert Network().endpoints("a.org", 80, 1.0) == [("8.8.8.8", 80)]
    assert asked == ["a.org"]


def test_other_ports_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, ["8.8.8.8"])
    with pytest.raises(FetchError) as error:
        Network().endpoints("a.org", 6379, 1.0)
    assert (error.value.outcome, asked) == ("port", [])


def test_a_redirect_is_checked_like_a_link(web: SmallWeb, tmp_path: Path) -> None:
    class Inside(SmallWeb):
        def endpoints(self, host: str, port: int, timeout: float) -> Any:
            if host == "inside.org":
                raise FetchError("not_public", host)
            return web.endpoints(host, port, timeout)

    inside = Inside()
    web.pages |= {"a.org/1": redirect("http://inside.org/"), "a.org/2": redirect("http://b.org/x")}
    web.pages |= {"b.org/robots.txt": page("User-agent: *\nDisallow: /x", kind="text/plain")}
    inside.fetch(tmp_path, "http://a.org/1", "http://a.org/2")
    inside.close()
    assert list(outcomes(tmp_path / "pages").values()) == ["not_public", "robots"]
    assert web.urls() == ["a.org/1", "a.org/2"]


def test_proxies_of_the_environment_are_not_used(
    web: SmallWeb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    web.pages["a.org/"] = page()
    assert web.fetch(tmp_path, "http://a.org/").outcomes == {"fetched": 1}


# --- politeness ---


def test_no_spelling_of_a_link_or_a_redirect_leads_past_robots_txt(
    web: SmallWeb, tmp_path: Path
) -> None:
    rules = "User-agent: *\nDisallow: /~joe/\nDisallow: /%7Eann/\nDisallow: /caf\u00e9"
    web.pages["a.org/robots.txt"] = page(rules, kind="text/plain")
    web.pages["a.org/open"] = redirect("/x/..//../%7ejoe/y")
    links = [f"http://a.org/{path}" for path in ("%7Ejoe/x", "~ann/x", "caf%c3%a9", "open")]
    web.fetch(tmp_path, *links)
    assert set(outcomes(tmp_path / "pages").values()) == {"robots"}
    assert web.urls() == ["a.org/open"]


def test_a_host_beyond_ascii_is_asked_by_the_name_that_browsers_use(
    web: SmallWeb, tmp_path: Path
) -> None:
    web.pages["xn--strae-oqa.de/"] = page()
    web.fetch(tmp_path, "http://stra\u00dfe.de/", "http://a\u200db.de/", "http://a.org/\ud800")
    found = list(outcomes(tmp_path / "pages").values())
    assert sorted(found) == ["bad_url", "bad_url", "fetched"]
    assert web.urls() == ["xn--strae-oqa.de/"]


def test_brotli_that_nobody_asked_for_is_undone(web: SmallWeb, tmp_path: Path) -> None:
    brotli = pytest.importorskip("brotli")
    packed = brotli.compress(b"<p>Hello." * 1000)
    encoded = {"Content_Encoding": "br"}
    web.pages |= {
        "a.org/robots.txt": page(
            brotli.compress(b"User-agent: *\nDisallow: /x"), kind="text/plain", **encoded
        ),
        "a.org/br": page(packed, **encoded),
        "a.org/bomb": page(brotli.compress(bytes(10**8)), **encoded),
        "a.org/cut": page(packed[:-3], **encoded),
        "a.org/bad": page(b"\xff" * 50, **encoded),
    }
    names = ("br", "bomb", "cut", "bad", "x")
    web.fetch(tmp_path, *(f"http://a.org/{each}" for each in names), max_page_size=10**5)
    found = list(outcomes(tmp_path / "pages").values())
    assert found == ["fetched", "too_large", "broken", "broken", "robots"]
    assert stored(tmp_path / "pages") == {"http://a.org/br": b"<p>Hello." * 1000}


def test_robots_txt_is_asked_for_once_and_kept_to(web: SmallWeb, tmp_path: Path) -> None:
    web.pages["a.org/robots.txt"] = page("User-agent: *\nDisallow: /private", kind="text/plain")
    web.pages |= {"a.org/open": page(), "a.org/private/x": page()}
    web.fetch(tmp_path, "http://a.org/private/x", "http://a.org/open")
    found = outcomes(tmp_path / "pages")
    assert found == {"http://a.org/private/x": "robots", "http://a.org/open": "fetched"}
    assert [url for _, url, _ in web.asked] == ["a.org/robots.txt", "a.org/open"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (page("", "404 Not Found"), "fetched"),
        (page("", "403 Forbidden"), "fetched"),
        (page("", "500 Error"), "robots_unreachable"),
        (page("", "429 Too Many"), "robots_unreachable"),
        (page(b"\xff\xfe garbage \0"), "fetched"),
        (page(b"# long\n" * 10**5 + b"User-agent: *\nDisallow: /"), "fetched"),  # beyond the limit
        (page("User-agent: *\nCrawl-delay: 3600"), "crawl_delay"),
        (redirect("http://b.org/robots.txt"), "robots"),
        (b"nonsense", "broken"),
    ],
)
def test_a_missing_robots_txt_allows_and_a_failing_one_forbids(
    answer: bytes, expected: str, web: SmallWeb, tmp_path: Path
) -> None:
    web.pages |= {"a.org/robots.txt": answer, "a.org/": page()}
    web.pages["b.org/robots.txt"] = page("User-agent: glassformer\nDisallow: /")
    web.fetch(tmp_path, "http://a.org/")
    assert outcomes(tmp_path / "pages") == {"http://a.org/": expected}


def test_requests_to_a_host_are_a_delay_apart(web: SmallWeb, tmp_path: Path) -> None:
    urls = [f"http://{host}.org/{n}" for n in range(3) for host in "ab"]
    begin = time.monotonic()
    web.fetch(tmp_path, *urls, delay=0.15)
    assert time.monotonic() - begin < 1.5  # both hosts at the same time
    for host in "ab":
        times = [when for when, url, _ in web.asked if url.startswith(host)]
        assert len(times) == 4
        assert min(after - before for before, after in pairwise(times)) > 0.13
    order = [url for url in web.urls() if url.startswith("a")]
    assert order == ["a.org/0", "a.org/1", "a.org/2"]


def test_a_longer_crawl_delay_is_kept_to(web: SmallWeb, tmp_path: Path) -> None:
    web.pages["a.org/robots.txt"] = page("User-agent: *\nCrawl-delay: 0.3", kind="text/plain")
    web.fetch(tmp_path, "http://a.org/1", "http://a.org/2")
    times = [when for when, _, _ in web.asked]
    assert min(after - before for before, after in pairwise(times)) > 0.28


def test_a_dead_host_costs_one_timeout_and_delays_no_other(web: SmallWeb, tmp_path: Path) -> None:
    web.pages["dead.org/robots.txt"] = silence()
    web.pages["a.org/"] = page()
    dead = [f"http://dead.org/{n}" for n in range(20)]
    begin = time.monotonic()
    found = web.fetch(tmp_path, *dead, "http://a.org/", timeout=0.3, workers=2)
    assert found.outcomes == {"timed_out": 20, "fetched": 1}
    assert time.monotonic() - begin < 1.5


# --- encryption ---


def test_a_server_without_encryption_is_an_error_of_encryption(
    web: SmallWeb, tmp_path: Path
) -> None:
    web.pages["a.org/"] = page()
    web.fetch(tmp_path, "https://a.org/")
    assert outcomes(tmp_path / "pages") == {"https://a.org/": "tls"}


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
def test_a_certificate_must_be_that_of_the_host(
    web: SmallWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=a.org"
    command += f" -addext subjectAltName=DNS:a.org -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(certificate, key)
    web.server.socket = ours.wrap_socket(web.server.socket, server_side=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    web.pages |= {"a.org/": page("secret"), "b.org/": page("secret")}
    web.fetch(tmp_path, "https://a.org/", "https://b.org/")
    assert sorted(outcomes(tmp_path / "pages").items()) == [
        ("https://a.org/", "fetched"),
        ("https://b.org/", "tls"),
    ]


# --- nothing that a server sends ends the program ---


def mutated(draw: random.Random, content: bytes) -> bytes:
    found = bytearray(content)
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(found))
        found[at : at + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
    return bytes(found[: draw.randint(1, 2 * len(found))])


def test_any_response_ends_in_an_outcome_and_a_whole_file(web: SmallWeb, tmp_path: Path) -> None:
    draw = random.Random(0)
    kinds = [
        page("<p>Hello.</p>", Set_Cookie="a=b", X_Note="é"),
        gzipped(b"<p>zipped</p>" * 9),
        CHUNKED + b"5\r\nHello\r\n0\r\n\r\n",
        redirect("http://b.org/x?y=z"),
        page(zlib.compress(b"<p>deflated</p>" * 9), Content_Encoding="deflate"),
        page("hi", "200 Größe\tund so"),
        page("hi").replace(b"Content-Length", b"X-\xe9: 1\r\nContent-Length"),
    ]
    urls = [f"http://h{n}.org/" for n in range(400)]
    for number, url in enumerate(urls):
        answer = kinds[number % len(kinds)]
        name = url.removeprefix("http://")
        web.pages[name] = answer if number < len(kinds) else mutated(draw, answer)
    found = web.fetch(tmp_path, *urls, timeout=0.3, workers=32)
    assert sum(found.outcomes.values()) == len(urls)
    assert found.outcomes["fetched"] == len(stored(tmp_path / "pages")) > 50
