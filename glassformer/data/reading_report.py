"""What happened while files were read: how many were read and skipped, and what was detected.

    with collecting() as report:
        …                      # reads files, at any depth of calls
    report.notes()             # "read 142 .py, 1 .rst; skipped 12 .png (binary)"

The report is a context variable: the functions that skip or decode a file are far below those that
know whom to tell. Each file is reported once, however often it is read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import PurePath

from glassformer.errors import GlassformerError
from glassformer.wording import counted

_ENDINGS = 8  # that are counted separately
_NAMES = 3  # files that are named as examples
IGNORED = "named in .gitignore"
LINKED = "linked, already read"
UNRECOGNISED = "encoding not recognised"
MALFORMED = "malformed table"


class ReadingReport:
    def __init__(self) -> None:
        self._read: dict[str, str] = {}
        self._skipped: dict[str, str] = {}
        self._encodings: dict[str, str] = {}
        self._conversions: dict[str, dict[str, None]] = {}
        self._remarks: dict[str, None] = {}

    def read(self, name: object) -> None:
        """A file of a folder was read."""
        self._read[str(name)] = _ending(str(name))

    def skip(self, name: object, reason: str) -> None:
        """A file of a folder was skipped."""
        self._skipped[str(name)] = reason

    def decoded(self, name: object, encoding: str) -> None:
        """A file is not UTF-8, and was read in another encoding."""
        self._encodings[str(name)] = encoding

    def converted(self, name: object, how: str) -> None:
        """An image was converted; `how` completes "3 images …"."""
        self._conversions.setdefault(how, {})[str(name)] = None

    def remark(self, sentence: str) -> None:
        self._remarks[sentence] = None

    def notes(self) -> list[str]:
        read = Counter(ending for name, ending in self._read.items() if name not in self._skipped)
        kinds = Counter(
            IGNORED if reason == IGNORED else f"{_ending(name)} ({reason})"
            for name, reason in self._skipped.items()
        )
        found = [f"read {_listed(read)}"] if read else []
        found += [f"skipped {_listed(kinds)}"] if kinds else []
        conversions = (
            f"{counted(len(names), 'image')} {how} (first: {next(iter(names))})"
            for how, names in self._conversions.items()
        )
        read_and_skipped = filter(None, ["; ".join(found)])
        return [
            *read_and_skipped,
            *(note for reason in (UNRECOGNISED, MALFORMED) for note in self._names_skipped(reason)),
            *self._encoding_notes(),
            *conversions,
            *self._remarks,
        ]

    def _names_skipped(self, why: str) -> Iterator[str]:
        """Names for a reason that a user may want to mend."""
        if names := [name for name, reason in self._skipped.items() if reason == why]:
            yield f"skipped ({why}): {_first(names)}"

    def _encoding_notes(self) -> Iterator[str]:
        if self._encodings:
            by_codec: dict[str, list[str]] = {}
            for name, codec in self._encodings.items():
                by_codec.setdefault(codec, []).append(name)
            shown = [f"{_first(names)} ({codec})" for codec, names in by_codec.items()]
            are = "is" if len(self._encodings) == 1 else "are"
            yield (
                f"{counted(len(self._encodings), 'file')} {are} not UTF-8 and read in another "
                f"encoding: {'; '.join(shown)}. If it is wrong, pass --encoding"
            )


_current: ContextVar[ReadingReport | None] = ContextVar("reading_report", default=None)


def report() -> ReadingReport:
    """The report that is being collected; one that nobody reads if there is none."""
    return _current.get() or ReadingReport()


@contextmanager
def collecting() -> Iterator[ReadingReport]:
    """Collect what is reported inside. An error carries what was reported before it."""
    found = ReadingReport()
    token = _current.set(found)
    try:
        with explaining(found.notes):
            yield found
    finally:
        _current.reset(token)


@contextmanager
def explaining(notes: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Add notes to an error, which they may explain: they are shown before it."""
    try:
        yield
    except GlassformerError as error:
        for each in notes():
            error.add_note(each)
        raise


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower() or "without extension"


def _first(names: list[str]) -> str:
    """a.txt, b.txt, c.txt, and 3 more"""
    more = len(names) - _NAMES
    return f"{', '.join(names[:_NAMES])}{f', and {more:,} more' if more > 0 else ''}"


def _listed(counts: Counter[str]) -> str:
    """142 .py, 1 .rst, and 3 others"""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{number:,} {what}" for what, number in ranked[:_ENDINGS]]
    rest = sum(number for _, number in ranked[_ENDINGS:])
    return ", ".join([*shown, *([f"and {counted(rest, 'other')}"] if rest else [])])
