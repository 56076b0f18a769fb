"""Standard input is UTF-8, whatever the locale, and bytes that are not are named."""

import io
import sys
from collections.abc import Callable

import pytest

from glassformer.cli.stdin import read_lines, read_text
from glassformer.errors import GlassformerError

Feed = Callable[[bytes], None]


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> Feed:
    """Bytes on stdin, which Python decodes as Latin-1, as it does under some locales."""

    def give(raw: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), "latin-1"))

    return give


def test_text_and_lines_are_utf_8_whatever_the_locale(feed: Feed) -> None:
    feed("\ufeffcafé\r\nça va\r\n".encode())
    assert read_text(None) == "café\nça va"
    feed("\ufeffcafé\r\nça va\r\n".encode())
    assert list(read_lines(None)) == ["café", "ça va"]


def test_bytes_that_are_not_utf_8_are_named(feed: Feed) -> None:
    feed("café ".encode() + b"caf\xe9")
    with pytest.raises(GlassformerError, match=r"stdin, byte 9: invalid UTF-8\. Convert it"):
        read_text(None)
    feed(b"one\ncaf\xe9\n")
    with pytest.raises(GlassformerError, match=r"stdin, line 2: invalid UTF-8\. Convert it"):
        list(read_lines(None))
