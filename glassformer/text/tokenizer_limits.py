"""Tokenizer files of unknown origin: what they may do to a text, and how their failures are told.

The `tokenizers` library trusts its files: a file of a kilobyte can make a million tokens of twenty
letters, and some make it panic, which in Python is not even an `Exception`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from math import prod
from threading import RLock
from typing import Any

from glassformer.errors import GlassformerError

MOST_GROWTH = 64  # characters into which a file may turn one; known tokenizers stay below 20
A_LOT = 1_000_000
PROBE = "A line, 12 words: déjà vu 你好\n"  # what the first use of a tokenizer is tried on
_STDERR = RLock()


def check_growth(values: Any) -> None:
    """Raise ValueError if the file, as JSON, replaces one character by very many."""
    for part in ("normalizer", "decoder"):
        growth = _growth(values.get(part)) if isinstance(values, dict) else 1.0
        if growth > MOST_GROWTH:
            up_to = f"up to {growth:,.0f}" if growth < A_LOT else f"more than {A_LOT:,}"
            raise ValueError(f"its {part} replaces one character by {up_to} characters")


def _growth(step: Any) -> float:
    """By how much a step, or the steps in it one after the other, can lengthen a text."""
    match step:
        case {"type": "Sequence", "normalizers": [*steps]}:
            return prod(map(_growth, steps))
        case {"type": "Sequence", "decoders": [*steps]}:
            return prod(map(_growth, steps))
        case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)}:
            return max(1.0, len(content) / max(1, len(pattern)))
        case {"type": "Replace", "content": str(content)}:  # a regex may match a single character
            return max(1.0, len(content))
        case {"type": "Prepend", "prepend": str(prefix)}:
            return 1.0 + len(prefix)
    return 1.0


@contextmanager
def panics_as_errors(what: str, is_silent: bool = True) -> Iterator[None]:
    """Turn a panic of the library into an error that begins with `what`. It prints a report before
    it can be caught, unless this `is_silent`."""
    try:
        with _no_stderr() if is_silent else nullcontext():
            yield
    except Exception:
        raise
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        problem = str(error).partition("\n")[0]
        raise GlassformerError(f"{what} ({problem}). Use another tokenizer.") from None


@contextmanager
def _no_stderr() -> Iterator[None]:
    """The report is written to the file behind stderr, which all threads share: two that swap it at
    once could lose it."""
    with _STDERR:
        try:
            kept = os.dup(2)
        except OSError:  # there is no stderr
            yield
            return
        silent = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(silent, 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(silent)
            os.close(kept)
