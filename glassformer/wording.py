"""Numbers, texts, durations and commands as people read and write them."""

import math
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path


def command(*words: str | Path) -> str:
    """A command line to copy and run: the program as it was called, with quoted arguments."""
    return f"{_program()} {shlex.join(map(str, words))}"


def as_argument(text: str) -> tuple[str, ...]:
    """A text in a command line, even if it begins like an option."""
    return ("--", text) if text.startswith("-") else (text,)


def install(*packages: str) -> str:
    """The command that installs packages for the running Python."""
    return shlex.join([sys.executable or "python", "-m", "pip", "install", *packages])


def _program() -> str:
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m glassformer"
    if called.stem != "glassformer":  # called from Python
        return "glassformer"
    program = shutil.which("glassformer")
    is_on_path = program is not None and Path(program).resolve() == called.resolve()
    return "glassformer" if is_on_path else shlex.quote(str(called))


def readable_size(num_bytes: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if num_bytes >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes} byte{'s' if num_bytes != 1 else ''}"


def beginning(text: str, most: int) -> str:
    """The first words of a text, on one line, in at most so many characters."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    whole, _, _ = line[: most + 1].rpartition(" ")
    return whole or line[:most]  # some scripts have no spaces


def shortened(text: str, most: int) -> str:
    """The same, followed by "…" if something was left out."""
    shown = beginning(text, most)
    return shown if shown == " ".join(text.split()) else f"{shown} …"


def counted(number: int, what: str) -> str:
    """1 step, 2,000 steps, 2 batches."""
    ending = "es" if what.endswith(("s", "ch", "x")) else "s"
    return f"{number:,} {what}{'' if number == 1 else ending}"


def joined(words: Iterable[str], word: str = "and") -> str:
    """One, one and two, or one, two and three."""
    *first, last = words
    return f"{', '.join(first)} {word} {last}" if first else last


def capitalised(text: str) -> str:
    """The first letter as at the beginning of a sentence; the others as they are."""
    return f"{text[:1].upper()}{text[1:]}"


def an(name: str, article: str = "a") -> str:
    """A gpt, an image-gpt, an rnn-lm: a name with the article that is spoken before it."""
    first = re.split("[^a-z]", name.lower(), maxsplit=1)[0]
    is_spelt = not set(first) & set("aeiouy")  # R-N-N: by the names of its letters
    starts_with_vowel = first[:1] in (set("aefhilmnorsx") if is_spelt else set("aeiou"))
    is_spoken_as_you = first.startswith(("uni", "use"))
    return f"{article}{'n' if starts_with_vowel and not is_spoken_as_you else ''} {name}"


def similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The one that was probably meant."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str], otherwise: str, cutoff: float = 0.6) -> str:
    """What to do about a name that is not known."""
    near = similar(name, known, cutoff)
    return otherwise if near is None else f"Did you mean {near}?"


def score_name(name: str) -> str:
    """val_macro_f1 → macro F1: a score as people write it."""
    words = name.removeprefix("val_").removeprefix("expected_").split("_")
    return " ".join("F1" if word == "f1" else word for word in words)


def percent(share: float, digits: int = 1) -> str:
    """12.3%; what would read as 100% but is less has more digits."""
    rest = 100 * (1 - share)
    if rest < 1e-5 or rest > 0.5 * 10**-digits:
        return f"{share:.{digits}%}"
    more = math.ceil(-math.log10(rest))
    return ">99.999%" if more > 3 else f"{share:.{more}%}"


def clock(seconds: float) -> str:
    """1:05 or 2:00:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def first_line(error: Exception) -> str:
    """The message of another library's error, as one sentence."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return line if line.endswith((".", "!", "?")) else f"{line}."


def cause(error: Exception) -> str:
    """Why something failed, in the words of the system or of another library: without a number,
    without the path, and without a full stop."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return first_line(error).rstrip(".")


# --- durations that people write: 90s, 5 min, 1h30, 1:30:00 ---

_NUMBER = r"(\d+\.?\d*|\.\d+)"
_CLOCK = re.compile(r"(?:(\d+):)?([0-5]?\d):([0-5]\d)")  # as `clock` writes them
_PART = re.compile(rf"{_NUMBER}\s*([a-z]*)\s*")
_UNITS = (
    (86400, ("d", "day", "days")),
    (3600, ("h", "hr", "hrs", "hour", "hours")),
    (60, ("m", "min", "mins", "minute", "minutes")),
    (1, ("s", "sec", "secs", "second", "seconds")),
)
_SECONDS = {name: size for size, names in _UNITS for name in names}
_NEXT = {86400: 3600, 3600: 60, 60: 1}  # 1h30: the unit of a number after another unit


def has_no_unit(text: str) -> bool:
    return re.fullmatch(_NUMBER, text.strip()) is not None


def seconds_of(text: str) -> float:
    """The seconds of a duration; a number without a unit is seconds already."""
    text = text.strip().lower()
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return 3600 * hours + 60 * minutes + seconds
    if has_no_unit(text):
        return float(text)
    if not re.fullmatch(f"(?:{_PART.pattern})+", text):
        raise _wrong()
    total, last = 0.0, 0
    for number, unit in _PART.findall(text):
        size = _SECONDS.get(unit) if unit else _NEXT.get(last)
        if size is None or (last and size >= last):  # 5 parsecs, or 1s 1h
            raise _wrong()
        total, last = total + float(number) * size, size
    return total


def _wrong() -> ValueError:
    return ValueError("use a time such as 90s, 15m, 1h30 or 1:30:00")
