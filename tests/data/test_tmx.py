"""Units of translation memories become pairs."""

from pathlib import Path

import pytest
from sentence_pair_files import TMX, complaint, sides, split, tmx, unit
from written_files import written

EXPECTED = [("Go.", "Va !"), ("Good day, Tom.", "Bonjour, Tom.")]


def test_tmx_takes_its_source_language_from_the_header(tmp_path: Path) -> None:
    header = '<header srclang="FR_ca"/>'
    path = written(tmp_path / "a.tmx", tmx(unit(en="Go.", fr="Va !"), header=header))
    assert sides(path) == [("Va !", "Go.")]
    assert sides(path, source_column="en") == [("Go.", "Va !")]
    assert sides(path, target_column="FR-fr") == [("Go.", "Va !")]


def test_tmx_without_a_source_language_says_what_is_taken(tmp_path: Path) -> None:
    units = [unit(en=f"line {n}", fr=f"ligne {n}") for n in range(3)]
    path = written(tmp_path / "a.tmx", tmx(*units, header='<header srclang="*all*"/>'))
    (note,) = split(path).notes
    assert note == f"{path} does not declare its source language; read as en to fr"


def test_tmx_of_many_languages_asks_for_two(tmp_path: Path) -> None:
    units = [unit(en=f"en {n}", fr=f"fr {n}", de=f"de {n}") for n in range(3)]
    path = written(tmp_path / "a.tmx", tmx(*units, unit(en="only", fr="deux")))
    problem = "has more than two languages: de, en, fr. Pass --source-column and --target-column."
    assert problem in complaint(path)
    assert problem in complaint(path, source_column="de")
    named = {"source_column": "DE-at", "target_column": "en"}
    assert sides(path, **named) == [(f"de {n}", f"en {n}") for n in range(3)]
    assert split(path, **named).notes == [f"left out: 1 unit without de or en (first: {path}:7)"]
    assert 'no language "it" (languages: de, en, fr).' in complaint(path, source_column="it")
    assert "the same language" in complaint(path, source_column="de", target_column="DE")


def test_tmx_between_two_kinds_of_one_language(tmp_path: Path) -> None:
    header = '<header srclang="en-GB"/>'
    path = written(tmp_path / "a.tmx", tmx(unit(en_US="color", en_GB="colour"), header=header))
    assert sides(path) == [("colour", "color")]
    assert sides(path, source_column="en-us", target_column="en-gb") == [("color", "colour")]


def test_tmx_keeps_the_words_and_drops_the_codes(tmp_path: Path) -> None:
    segment = (
        'Press <bpt i="1">&lt;b&gt;</bpt>Save<ept i="1">&lt;/b&gt;</ept>'
        '<ph><sub>x</sub>{1}</ph> &amp; <hi type="term">wait</hi>.<it pos="end">y</it>'
    )
    content = tmx(unit(en=segment, fr="F"), header='<header srclang="en"><note>n</note></header>')
    assert sides(written(tmp_path / "a.tmx", content)) == [("Press Save & wait.", "F")]


@pytest.mark.parametrize("size", [1, 7, 50, 1 << 16])
def test_tmx_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr("glassformer.data.pair_files._PIECE", size)
    units = [unit(en=f"line {n}", fr=f"ligne {n}", de=f"Zeile {n}") for n in range(9)]
    path = written(tmp_path / "a.tmx", tmx(*units, unit(en="only")))
    named = {"source_column": "en", "target_column": "fr"}
    assert sides(path, **named) == [(f"line {n}", f"ligne {n}") for n in range(9)]
    assert split(path, **named).notes == [f"left out: 1 unit without en or fr (first: {path}:13)"]


def test_tmx_of_an_older_kind_and_with_a_namespace(tmp_path: Path) -> None:
    content = TMX.replace("xml:lang", "lang").replace("<tmx ", '<tmx xmlns="http://x.org" ')
    assert sides(written(tmp_path / "a.tmx", content)) == EXPECTED


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (TMX.replace("</tu>", "", 1), ":7: invalid XML (mismatched tag)."),
        (TMX[:-20], "invalid XML (no element found)."),
        (TMX.replace("Go.", "Go & stop"), ":4: invalid XML (not well-formed (invalid token))."),
        (TMX.replace("Go.", "&nbsp;"), ":4: invalid XML (undefined entity"),
        ("plain text\n", ":1: invalid XML (syntax error)."),
        ("a\0b", ":1: invalid XML"),
        ("", "is empty"),
        (TMX.replace("UTF-8", "utf-7"), "Save it as UTF-8."),
        ("<map><layer/></map>", "not a translation memory: it begins with <map>, not <tmx>"),
        (tmx(), "contains no translation units"),
        (tmx(unit(en="x")), "has only one language: en. Pass a file with two."),
        (tmx(unit(en="x"), unit(fr="y")), "contains no unit with both en and fr."),
        (tmx("<tu><tuv><seg>x</seg></tuv></tu>"), ":4: a <tuv> has no language."),
    ],
)
def test_bad_tmx_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.tmx", content))


@pytest.mark.parametrize(
    "entity",
    ['<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">', '<!ENTITY b SYSTEM "file:///etc/passwd">'],
)
def test_tmx_that_declares_entities_is_refused(tmp_path: Path, entity: str) -> None:
    content = tmx(unit(en="&b;", fr="x"), before=f"<!DOCTYPE tmx [{entity}]>")
    assert ":1 declares a custom entity" in complaint(written(tmp_path / "a.tmx", content))
