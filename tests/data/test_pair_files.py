"""Every format gives the same pairs."""

import io
import json
from pathlib import Path

import pytest
from sentence_pair_files import TMX, complaint, many, sides, split, tabbed
from written_files import written

from glassformer.data.pair_files import Pair
from glassformer.data.sentence_pairs import pairs_of
from glassformer.errors import GlassformerError, UsageError

EXPECTED = [("Go.", "Va !"), ("Good day, Tom.", "Bonjour, Tom.")]


PO = """# a header
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: main.c:3
msgctxt "menu"
msgid "Go."
msgstr "Va !"

msgid ""
"Good day,\\n"
"Tom."
msgstr "Bonjour,\\tTom."
"""


# --- formats ---


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "Go.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.tsv", "\ufeffGo.\tVa !\tCC-BY 2.0\r\n\r\nGood  day, Tom. \tBonjour,\u00a0Tom.\tCC\tx"),
        ("a.txt", "Go.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.txt.gz", "Go.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.tsv", "Source\tTarget\nGo.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.tsv", "id\ttrg\tsrc\n1\tVa !\tGo.\n2\tBonjour, Tom.\tGood day, Tom.\n"),
        ("a.tsv", "EN\tfr\nGo.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.tsv", "eng_Latn\tfra_Latn\nGo.\tVa !\nGood day, Tom.\tBonjour, Tom.\n"),
        ("a.csv", 'target,source\nVa !,Go.\n"Bonjour, Tom.","Good day, Tom."\n'),
        ("a.csv.gz", 'id,en,fr\nx1,Go.,Va !\nx2,"Good day, Tom.","Bonjour, Tom."\n'),
        ("a.csv", 'one,n,other\nGo.,1,Va !\n"Good day,\nTom.",2,"Bonjour, Tom."\n'),
        (
            "a.jsonl",
            '{"src": "Go.", "tgt": "Va !", "score": 1}\n'
            '{"src": "Good day, Tom.", "tgt": "Bonjour, Tom."}\n',
        ),
        (
            "a.jsonl",
            '{"id": 1, "translation": {"en": "Go.", "fr": "Va !"}}\n'
            '{"id": 2, "translation": {"fr": "Bonjour, Tom.", "en": "Good day, Tom."}}\n',
        ),
        ("a.po", PO),
        ("a.po.gz", PO),
        ("a.tmx", TMX),
        ("a.tmx.gz", TMX),
        ("a.TMX", TMX.encode("utf-8").replace(b"UTF-8", b"UTF-16").decode().encode("utf-16")),
    ],
)
def test_every_format_gives_the_same_pairs(tmp_path: Path, name: str, content: str | bytes) -> None:
    path = written(tmp_path / name, content)
    assert sides(path) == EXPECTED
    assert sides(path, reverse=True) == [(target, source) for source, target in EXPECTED]


@pytest.mark.parametrize("is_packed", [False, True])
def test_parquet(tmp_path: Path, is_packed: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"de": source, "fr": target} for source, target in EXPECTED]
    columns = {"translation": rows} if is_packed else {k: [r[k] for r in rows] for k in rows[0]}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    path = written(tmp_path / "a.parquet", buffer.getvalue())
    assert sides(path) == EXPECTED
    assert sides(path, source_column="fr") == [(target, source) for source, target in EXPECTED]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_two_files_run_in_parallel(tmp_path: Path, ending: str) -> None:
    source = written(tmp_path / f"a.en{ending}", "Go.\n\nGood day,  Tom.")
    target = written(tmp_path / f"a.fr{ending}", "Va !\r\n\r\nBonjour, Tom.\r\n")
    assert pairs_of(source_paths=[source], target_paths=[target]) == [
        Pair("Go.", "Va !", f"{source}:1"),
        Pair("", "", f"{source}:2"),
        Pair("Good day, Tom.", "Bonjour, Tom.", f"{source}:3"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("a.tsv", "en\tfr\n\nGo.\tVa !\nGood day, Tom.\tBonjour, Tom.\n", (3, 4)),
        ("a.csv", 'en,fr\nGo.,"Va\n!"\n"Good day, Tom.","Bonjour, Tom."\n', (2, 4)),
        ("a.po", PO, (5, 10)),
        ("a.tmx", TMX, (4, 5)),
    ],
)
def test_a_pair_knows_its_line(
    tmp_path: Path, name: str, content: str, lines: tuple[int, int]
) -> None:
    path = written(tmp_path / name, content)
    assert [pair.place for pair in pairs_of([path])] == [f"{path}:{line}" for line in lines]


def test_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    names = [written(tmp_path / f"{n}.tsv", tabbed(*many(2, n))) for n in (5, 0)]
    assert [pair.source for pair in pairs_of(names)] == [f"sentence {n}" for n in (5, 6, 0, 1)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a\tb\n\nc\n", ":3: expected at least 2 fields, found 1. Write each line as source, tab,"),
        ("only text\n", ":1: expected at least 2 fields, found 1."),
        ("", "is empty"),
        (" \n\n", "contains no sentence pairs"),
        ("source\ttarget\n", "contains no sentence pairs"),
        ("a\tb\nc\0\td\n", ":2: NUL byte"),
        (b"a\tb\n\xe9\x81\xe9\tb\n", "byte 4: invalid UTF-8 (0xE9), and no other encoding fits."),
        (b"\x89PNG\x00\x00\n", "is a binary file, not text"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, content: str | bytes, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.tsv", content))


def test_another_encoding_may_be_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "\xe9t\xe9\tsummer\n".encode("latin-1"))
    assert sides(path, encoding="latin-1") == [("été", "summer")]
    with pytest.raises(UsageError, match="unknown encoding"):
        sides(path, encoding="latin-99")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "train.tsv", "a\tb\n")
    assert f"Did you mean {path}?" in complaint(str(tmp_path / "trian.tsv"))
    with pytest.raises(
        GlassformerError, match=r"no\.en does not exist\. Pass a file with one sent"
    ):
        pairs_of(source_paths=[str(tmp_path / "no.en")], target_paths=[path])
    with pytest.raises(GlassformerError, match="is a folder"):
        pairs_of(source_paths=[path], target_paths=[str(tmp_path)])


@pytest.mark.parametrize(("more", "words"), [(1, "1 more line"), (3, "3 more lines")])
def test_files_of_unequal_length_are_refused(tmp_path: Path, more: int, words: str) -> None:
    short = written(tmp_path / "a.en", "x\n" * 1000)
    long = written(tmp_path / "a.fr", "x\n" * (1000 + more))
    for source, target in ((short, long), (long, short)):
        with pytest.raises(GlassformerError) as error:
            pairs_of(source_paths=[source], target_paths=[target])
        assert f"{long} has {words} than {short} ({1000 + more:,} and 1,000)." in str(error.value)


# --- headers and columns ---


@pytest.mark.parametrize("first", ["Hi\tNo", "No\tNo", "source\tsource", "no\tno", "me\tmoi"])
def test_a_pair_in_the_first_line_is_no_header(tmp_path: Path, first: str) -> None:
    assert len(sides(written(tmp_path / "a.tsv", f"{first}\nGo.\tVa !\n"))) == 2


def test_what_may_be_a_pair_but_is_taken_as_a_header_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "it\tes\n" + tabbed(*many(3)))
    assert split(path).notes == [f"{path}:1 is read as a header: it, es"]


def test_columns_may_be_named(tmp_path: Path) -> None:
    content = "id\tfr\ten\tde\n1\tVa !\tGo.\tGeh!\n"
    for name, text in (("a.tsv", content), ("a.csv", content.replace("\t", ","))):
        path = written(tmp_path / name, text)
        assert sides(path, source_column="de", target_column="fr") == [("Geh!", "Va !")]
        assert 'has no column "ge" (columns: id, fr, en, de).' in complaint(
            path, source_column="ge"
        )
        assert "both the source and the target" in complaint(
            path, source_column="de", target_column="de"
        )
    short = written(tmp_path / "b.tsv", "id\tfr\ten\tde\n1\t2\t3\n")
    problem = complaint(short, source_column="de", target_column="fr")
    assert f"{short}:2: expected at least 4 fields, found 3" in problem


def test_columns_that_are_not_plain_are_listed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b,c\nx,y,z\n")
    assert complaint(path) == (
        f"{path} has no obvious source and target columns (columns: a, b, c). "
        "Pass --source-column and --target-column."
    )
    assert "(columns: de, en, fr)." in complaint(written(tmp_path / "b.csv", "en,de,fr\nx,y,z\n"))


def test_columns_that_are_only_the_two_with_words_are_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "Hello,Hallo\na,b\nc,d\n")
    note = f'{path}: column "Hello" is used as the source, "Hallo" as the target'
    assert split(path).notes == [note]


def test_a_column_of_translations_with_more_languages(tmp_path: Path) -> None:
    rows = [{"de": f"satz {n}", "en": f"line {n}", "fr": f"ligne {n}"} for n in range(2)]
    lines = [json.dumps({"translation": row}) for row in rows]
    path = written(tmp_path / "a.jsonl", "\n".join([*lines, '{"translation": null}']))
    found = sides(path, source_column="fr", target_column="de")
    assert found == [("ligne 0", "satz 0"), ("ligne 1", "satz 1"), ("", "")]
    assert "(columns: de, en, fr). Pass --source-column and --target-column" in complaint(path)
    assert 'has no column "it" (columns: de, en, fr).' in complaint(path, source_column="it")
    bad = written(tmp_path / "b.jsonl", lines[0] + '\n{"translation": "x"}\n')
    assert f"{bad}:2: column" in complaint(bad, source_column="fr", target_column="de")


def test_a_cell_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"en": "x", "de": "y"}\n' * 9 + '{"en": "x", "de": 7}\n')
    for columns in ({}, {"source_column": "en", "target_column": "de"}):
        problem = complaint(path, **columns)
        assert "a.jsonl:10" in problem
        assert "of type int, not text. Correct it, or pass another --target-column." in problem


def test_a_file_without_a_header_has_no_columns_to_choose(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "one man\tun homme\tein Mann\n" * 3)
    problem = complaint(path, source_column="en", target_column="de")
    assert 'a.tsv:1 is not a header with a column "en".' in problem
