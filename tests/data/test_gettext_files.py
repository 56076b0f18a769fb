"""Translated messages of gettext files become pairs."""

from pathlib import Path

import pytest
from sentence_pair_files import complaint, sides, split
from written_files import written


def test_gettext_leaves_out_what_is_not_translated_and_says_so(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.po",
        'msgid "one"\nmsgstr "un"\n\n#, fuzzy\nmsgid "two"\nmsgstr "doux"\n\n'
        'msgid "three"\nmsgstr ""\n\nmsgid "four"\nmsgstr "quatre"\n\n'
        'msgid "five"\nmsgstr " "\n\n#~ msgid "six"\n#~ msgstr "six!"\n',
    )
    assert sides(path) == [("one", "un"), ("four", "quatre")]
    assert split(path).notes == [
        f"left out: 1 obsolete message (first: {path}:17)",
        f"left out: 1 fuzzy message (first: {path}:4)",
        f"left out: 2 untranslated messages (first: {path}:8)",
    ]


def test_gettext_gives_a_pair_for_singular_and_plural(tmp_path: Path) -> None:
    plural = 'msgid "%d day"\nmsgid_plural "%d days"\nmsgstr[0] "{}"\n{}\n'
    path = written(tmp_path / "a.po", plural.format("%d Tag", 'msgstr[1] "%d Tage"'))
    assert sides(path) == [("%d day", "%d Tag"), ("%d days", "%d Tage")]
    assert sides(written(tmp_path / "b.po", plural.format("%d日", ""))) == [("%d day", "%d日")]


def test_gettext_with_an_odd_line_break_in_a_string(tmp_path: Path) -> None:
    path = written(tmp_path / "a.po", 'msgid "a\u2028b\x0cc"\nmsgstr "d"\n')
    assert sides(path) == [("a b c", "d")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('msgid "a"\nmsgstr "b\n', ":2: invalid gettext."),
        ('msgid "a"\n"b"\nmsgstr ""\n"bonjour\n', ":4: invalid gettext."),
        ("no gettext\n", ":1: invalid gettext."),
        ('msgid "a"\nmsgstr[x] "b"\n', "invalid gettext."),
        ('msgid "a"\nmsgstr ""\n', "contains no sentence pairs"),
        ("", "is empty"),
        ('msgid "a\0"\nmsgstr "b"\n', ":1: NUL byte"),
    ],
)
def test_bad_gettext_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.po", content))
