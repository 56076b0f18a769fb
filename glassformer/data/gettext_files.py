"""Translated messages of gettext (.po).

    msgid "Go."
    msgstr "Va !"   →  (7, "Go.", "Va !")

Obsolete, fuzzy and untranslated messages are left out, and counted in the notes.
"""

import re
from collections.abc import Iterator
from typing import Any

import polib

from glassformer.data.text_files import DataPath, read_lines
from glassformer.errors import GlassformerError
from glassformer.wording import counted

_LINES_AT_ONCE = 10_000
_KEYWORD = re.compile(r"(?:#~\s*)?(msgid|msgctxt|msgstr)")
_LATER = re.compile(r"(?:#~\s*)?(?:msgid_plural|msgstr|\")")  # never the first line of a message
_STRING = re.compile(r'".*"\s*$')
# polib breaks lines wherever str.splitlines does, even inside a string.
_BREAKS = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


def read_gettext(path: DataPath, encoding: str, notes: list[str]) -> Iterator[tuple[int, str, str]]:
    """The line, source and translation of each message; what is left out is added to `notes`."""
    left_out: dict[str, list[int]] = {"obsolete": [], "fuzzy": [], "untranslated": []}
    forms: list[int] = []
    for line, entry in _entries(path, encoding):
        plural = entry.msgstr_plural or {}
        sides = [
            (entry.msgid, plural.get(0, entry.msgstr)),
            (entry.msgid_plural, plural.get(1, "")),
        ]
        translated = [side for side in sides if all(map(str.strip, side))]
        if entry.obsolete or entry.fuzzy or not translated:
            kind = "obsolete" if entry.obsolete else "fuzzy" if entry.fuzzy else "untranslated"
            left_out[kind].append(line)
        else:
            forms += [line] * max(0, len(plural) - 2)
            yield from ((line, source, target) for source, target in translated)
    notes += [
        f"left out: {counted(len(lines), what)} (first: {path}:{lines[0]})"
        for what, lines in (
            *((f"{kind} message", lines) for kind, lines in left_out.items()),
            ("plural form", forms),
        )
        if lines
    ]


def _entries(path: DataPath, encoding: str) -> Iterator[tuple[int, Any]]:
    """The messages of a file, parsed some at a time, each with its line."""
    for offset, lines in _blocks(path, encoding):
        try:
            entries = polib.pofile("".join(lines).translate(_BREAKS))
        except (OSError, ValueError, LookupError) as error:  # polib reports bad syntax as OSError
            found = re.search(r"line (\d+)", str(error))
            place = f"{path}:{offset + int(found[1])}" if found else str(path)
            raise _not_gettext(place) from None
        first = next((n for n, line in enumerate(lines, 1) if not line.isspace()), 1)
        for entry in entries:
            yield offset + (entry.linenum or first), entry  # polib does not number the first


def _blocks(path: DataPath, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of a file in parts that end after a message, and the number of lines before."""
    block, offset, is_translated = list[str](), 0, False
    for number, line in enumerate(read_lines(path, encoding), 1):
        # If the closing quote is missing, polib drops a letter instead of complaining.
        if line.startswith(("msg", '"')) and not _STRING.search(line):
            raise _not_gettext(f"{path}:{number}")
        begins = line.startswith(("#", "msgid", "msgctxt")) and not _LATER.match(line)
        if is_translated and begins:
            if len(block) >= _LINES_AT_ONCE:
                yield offset, block
                block, offset = [], number - 1
            is_translated = False
        if keyword := _KEYWORD.match(line):
            is_translated = keyword[1] == "msgstr"
        block.append(line)
    yield offset, block


def _not_gettext(place: str) -> GlassformerError:
    return GlassformerError(
        f"{place}: invalid gettext. Correct it; msgfmt --check reports the problem."
    )
