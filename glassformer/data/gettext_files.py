"""Translated messages of gettext (.po).

    msgid "Go."
    msgstr "Va !"   →  (7, "Go.", "Va !")

Obsolete, fuzzy and untranslated messages are left out, and counted in the notes.
"""

import re
from pathlib import Path
from typing import Any

import polib

from glassformer.data.text_files import read_lines
from glassformer.errors import GlassformerError
from glassformer.wording import counted

_STRING = re.compile(r'".*"\s*$')
# polib breaks lines wherever str.splitlines does, even inside a string.
_BREAKS = str.maketrans(dict.fromkeys("\v\f\x1c\x1d\x1e\x85\u2028\u2029", " "))


def read_gettext(path: Path, encoding: str, notes: list[str]) -> list[tuple[int, str, str]]:
    """The line, source and translation of each message; what is left out is added to `notes`."""
    units: list[tuple[int, str, str]] = []
    left_out: dict[str, list[int]] = {"obsolete": [], "fuzzy": [], "untranslated": []}
    for entry in _entries(path, encoding):
        plural = entry.msgstr_plural or {}
        sides = [
            (entry.msgid, plural.get(0, entry.msgstr)),
            (entry.msgid_plural, plural.get(1, "")),
        ]
        translated = [side for side in sides if all(map(str.strip, side))]
        if entry.obsolete or entry.fuzzy or not translated:
            kind = "obsolete" if entry.obsolete else "fuzzy" if entry.fuzzy else "untranslated"
            left_out[kind].append(entry.linenum)
        else:
            units += [(entry.linenum, source, target) for source, target in translated]
    notes += [
        f"left out: {counted(len(lines), f'{kind} message')} (first: {path}:{lines[0]})"
        for kind, lines in left_out.items()
        if lines
    ]
    return units


def _entries(path: Path, encoding: str) -> list[Any]:
    lines = list(read_lines(path, encoding))
    for number, line in enumerate(lines, 1):
        # If the closing quote is missing, polib drops a letter instead of complaining.
        if line.startswith(("msg", '"')) and not _STRING.search(line):
            raise _not_gettext(f"{path}:{number}")
    try:
        return list(polib.pofile("".join(lines).translate(_BREAKS)))
    except (OSError, ValueError, LookupError) as error:  # polib reports bad syntax as OSError
        line_number = re.search(r"line (\d+)", str(error))
        raise _not_gettext(f"{path}:{line_number[1]}" if line_number else str(path)) from None


def _not_gettext(place: str) -> GlassformerError:
    return GlassformerError(
        f"{place}: invalid gettext. Correct it; msgfmt --check reports the problem."
    )
