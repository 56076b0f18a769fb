"""Ctrl-C in a conversation."""

import signal
from collections.abc import Iterator

import pytest

from glassformer.cli.verb import heed_signals, interruptible


@pytest.fixture(autouse=True)
def _restored_handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)


def test_ctrl_c_stops_an_answer_and_the_next_one_the_program() -> None:
    heed_signals()
    written = []
    with interruptible(is_live=True):
        for piece in ("a", "b", "c"):
            written.append(piece)
            if piece == "b":
                signal.raise_signal(signal.SIGINT)
    assert written == ["a", "b"]
    with pytest.raises(SystemExit) as ended:
        signal.raise_signal(signal.SIGINT)
    assert ended.value.code == 130


def test_without_a_terminal_ctrl_c_ends_the_program() -> None:
    heed_signals()
    with pytest.raises(SystemExit), interruptible(is_live=False):
        signal.raise_signal(signal.SIGINT)
