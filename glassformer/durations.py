"""Durations as people write them: 90s, 5 min, 1h30, 1:30:00."""

import re

_NUMBER = r"(\d+\.?\d*|\.\d+)"
_CLOCK = re.compile(r"(?:(\d+):)?([0-5]?\d):([0-5]\d)")  # as `wording.clock` writes them
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
