"""Translated messages of gettext files become pairs."""

from pathlib import Path

import pytest
from sentence_pair_files import complaint, sides, split
from written_files import written

from glassformer.data import pair_files as gettext_files
from glassformer.data.sentence_pairs import pairs_of


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


def test_gettext_counts_the_plural_forms_that_have_no_source(tmp_path: Path) -> None:
    forms = "".join(f'msgstr[{n}] "%d {n}"\n' for n in range(4))
    path = written(
        tmp_path / "a.po",
        f'msgid "a"\nmsgstr "b"\n\nmsgid "%d day"\nmsgid_plural "%d days"\n{forms}',
    )
    (note,) = split(path).notes
    assert note == f"left out: 2 plural forms (first: {path}:4)"


@pytest.mark.parametrize("lines", [1, 2, 3, 5, 100])
def test_gettext_is_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr(gettext_files, "_LINES_AT_ONCE", lines)
    content = (
        'msgid ""\nmsgstr "Language: fr\\n"\n\n#: a.c:1\n#, c-format\nmsgctxt "x"\nmsgid "one"\n'
        '"more"\n\nmsgstr "un"\n"plus"\nmsgid "two"\nmsgid_plural "twos"\nmsgstr[0] "deux"\n'
        'msgstr[1] "deuxs"\n# a note\n#, fuzzy\nmsgid "three"\nmsgstr "trios"\n'
        '#~ msgid "four"\n#~ msgid_plural "fours"\n#~ msgstr[0] "quatre"\nmsgid "five"\n'
        'msgstr "cinq"\n'
    )
    path = written(tmp_path / "a.po", content)
    found = [(pair.source, pair.target, pair.place) for pair in pairs_of([path])]
    assert found == [
        ("onemore", "unplus", f"{path}:4"),
        ("two", "deux", f"{path}:12"),
        ("twos", "deuxs", f"{path}:12"),
        ("five", "cinq", f"{path}:23"),
    ]
    assert complaint(written(tmp_path / "b.po", content + "nonsense\n")).startswith(
        f"{tmp_path}/b.po:25: invalid gettext."
    )


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
