"""Rows come out as they were written, and whatever is wrong with a table is said with its place."""

import csv
import gzip
import json
import sys
from pathlib import Path
from typing import Literal

import pytest

from glassformer.data.tables import Row, Table, column, open_table
from glassformer.data.tables import read_rows as rows_of
from glassformer.errors import GlassformerError, UsageError


def written(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def values(path: Path, encoding: str = "utf-8") -> list[dict[str, object]]:
    return [row.values for row in rows_of(path, encoding)]


def parquet(path: Path, **columns: object) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as format_

    format_.write_table(pyarrow.table(columns), path)
    return path


def table(*columns: str, worded: tuple[str, ...] = ()) -> Table:
    return Table("reviews.csv", columns, worded, iter(()))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,stars\n"Fine, really.",4\nBad.,1\n'),
        ("a.CSV", '\ufefftext,stars\r\n"Fine, really.",4\r\nBad.,1'),
        ("a.csv", "text;stars\nFine, really.;4\n\nBad.;1\n"),
        ("a.csv", "text\tstars\nFine, really.\t4\nBad.\t1\n"),
        ("a.csv", '"text"|"stars"\n"Fine, really."|"4"\n"Bad."|"1"\n'),
        ("a.tsv", "text\tstars\nFine, really.\t4\nBad.\t1\n"),
        ("a.jsonl", '{"text": "Fine, really.", "stars": "4"}\n\n{"text": "Bad.", "stars": "1"}'),
    ],
)
@pytest.mark.parametrize("zipped", ["", ".gz"])
def test_every_text_format_gives_the_same_rows(
    tmp_path: Path, name: str, content: str, zipped: str
) -> None:
    path = written(tmp_path / (name + zipped), content)
    assert values(path) == [{"text": "Fine, really.", "stars": "4"}, {"text": "Bad.", "stars": "1"}]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_a_csv_without_a_header_is_divided_at_its_own_separator(
    tmp_path: Path, separator: str, quoting: Literal[0, 1]
) -> None:
    """Whatever other separators are in its texts, also in the first one."""
    texts = ["One, two; three\tfour | five", "a, b, c", "x;y;z\nand | so\ton", 'say "no"'] * 5
    rows = [(text, str(number % 2), "1,5") for number, text in enumerate(texts)]
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=separator, quoting=quoting).writerows(rows)
    assert [tuple(row.values()) for row in values(path)] == rows


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", ":", "^"])
@pytest.mark.parametrize("first", ["sep={}", "SEP={}", '"sep={}"'])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_first_line_for_excel_names_the_separator(
    tmp_path: Path, separator: str, first: str, mark: str
) -> None:
    """Also where another character would divide the rows as well; it is not a row."""
    line = first.format(separator)
    content = f"{mark}{line}\r\ntext{separator}label\r\nA, b; c | d{separator}1\r\n"
    if separator in content.split("\r\n")[2][:-2]:
        content = content.replace("A, b; c | d", '"A, b; c | d"')
    path = written(tmp_path / "a.csv", content)
    assert [(row.values, row.line) for row in rows_of(path, "utf-8")] == [
        ({"text": "A, b; c | d", "label": "1"}, 3)
    ]


def test_a_first_line_for_excel_counts_in_the_place_of_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "sep=:\ntext:label\nfine:1\na:b:1\n")
    with pytest.raises(GlassformerError, match=r"a.csv:4: expected 2 fields .* contain a ':'"):
        values(path)


@pytest.mark.parametrize("header", ["sep=", "sep=a", "separator"])
def test_other_first_lines_are_headers(tmp_path: Path, header: str) -> None:
    path = written(tmp_path / "a.csv", f"{header};label\nfine;1\nbad;2\n")
    assert len(values(path)) == 2
    assert "sep" in next(iter(values(path)[0]))


def test_a_bad_line_does_not_change_the_separator(tmp_path: Path) -> None:
    rows = [f"Number {n}, as it is;{n % 2}" for n in range(30)]
    rows[20] = "a; b;1"
    path = written(tmp_path / "a.csv", "\n".join(["text;label", *rows]))
    with pytest.raises(GlassformerError) as error:
        values(path)
    assert str(error.value) == (
        f"{path}:22: expected 2 fields (text, label), found 3. Quote fields that contain a "
        "semicolon."
    )


@pytest.mark.parametrize("zipped", [False, True])
def test_parquet_gives_its_rows_and_their_numbers(tmp_path: Path, zipped: bool) -> None:
    path = parquet(tmp_path / "a.parquet", text=["one", None], stars=[4, 5])
    if zipped:
        path = written(tmp_path / "a.parquet.gz", path.read_bytes())
    assert list(rows_of(path, "utf-8")) == [
        Row({"text": "one", "stars": 4}, str(path), 1),
        Row({"text": None, "stars": 5}, str(path), 2),
    ]


def test_parquet_text_that_is_not_utf_8_is_said_with_its_row(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    column_ = pyarrow.array([b"fine"] * 300 + [b"\xff"]).view(pyarrow.string())
    parquet(path, text=column_)
    with pytest.raises(GlassformerError, match=r"a\.parquet, after row 256: .*utf-8"):
        values(path)


def test_a_row_is_placed_at_its_first_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'text,stars\n"two\nlines",4\n\nlater,5\n')
    assert [row.place for row in rows_of(path, "utf-8")] == [f"{path}:2", f"{path}:5"]


def test_a_quote_in_a_tsv_is_a_character_like_any_other(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", 'en\tde\n"Go!\t"Los!" rief er.\n')
    assert values(path) == [{"en": '"Go!', "de": '"Los!" rief er.'}]


def test_a_csv_field_may_be_larger_than_the_default_limit(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text\n" + "x" * 3_000_000 + "\n")
    assert len(str(values(path)[0]["text"])) == 3_000_000


def test_rows_are_read_one_by_one(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "good"}\n' * 10_000 + "oops\n")
    assert next(rows_of(path, "utf-8")).values == {"text": "good"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"a": 1}\n{"a": 1,}\n', ":2: invalid JSON (Expecting property name"),
        ("a.jsonl", "[\n", ":1: invalid JSON"),
        ("a.jsonl", '["text"]\n', ":1: not a JSON object."),
        ("a.jsonl", "[" * 100_000 + "\n", ":1: invalid JSON"),
        ("a.jsonl", '{"a": ' + "9" * 5000 + "}\n", ":1: invalid JSON"),
        ("a.jsonl", '{"a": "x"}\n{"a": "\\ud83d"}\n', ":2: unpaired surrogate ("),
        ("a.csv", "a,b\n1,2\n1,2,3\n", ":3: expected 2 fields (a, b), found 3"),
        ("a.tsv", "a\tb\n1\n", ":2: expected 2 fields (a, b), found 1."),
        ("a.csv", 'a,b\n1,2\n"never closed,3\n4,5\n', ":3: invalid CSV"),
        ("a.csv", 'a,b\n"say "hi" now",2\n', ":2: invalid CSV"),
        ("a.csv", "a,b,a\n1,2,3\n", ':1: two columns are named "a"'),
        ("a.csv", "a,b\n1,2\n\x00,2\n", ":3: NUL byte."),
        ("a.jsonl", '{"a": 1}\n\x00\n', ":2: NUL byte."),
        ("a.csv", b"a,b\n1,\xe9\x81\xe9\n", ", byte 6: invalid UTF-8 (0xE9), and no other"),
        ("a.csv", "", " is empty."),
        ("a.csv", " \n\n", " is empty."),
        ("a.tsv.gz", "", " is empty."),
        ("a.jsonl", "\n \n", " is empty."),
        ("a.parquet", "", " is empty."),
        ("a.parquet", "no such thing", " is not Parquet: "),
    ],
)
def test_a_fault_is_said_with_its_place(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = written(tmp_path / name, content)
    with pytest.raises(GlassformerError) as error:
        values(path)
    assert str(error.value).startswith(str(path) + message)


def test_json_may_spell_a_character_as_a_surrogate_pair(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", json.dumps({"text": "😀"}) + "\n")
    assert values(path) == [{"text": "😀"}]


def test_a_header_without_rows_is_not_a_table(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "text,stars\n")
    with pytest.raises(GlassformerError, match="has no rows"):
        open_table(path, "utf-8")


def test_another_ending_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not a table\. Supported extensions: \.csv"):
        rows_of(tmp_path / "a.xlsx", "utf-8")


# --- columns ---


@pytest.mark.parametrize("name", ["text", "Content", "body", "review"])
def test_the_obvious_name_is_the_text_column(name: str) -> None:
    candidates = ("text", "content", "body", "review")
    assert column(table("id", name, "title", worded=(name, "title")), None, candidates) == name


def test_the_only_column_with_words_is_the_text_column(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "id,quote,stars\n1,Well.,4.5\n2,10,3\n")
    assert column(open_table(path, "utf-8"), None, ("text",)) == "quote"


def test_columns_are_learnt_from_more_than_the_first_row(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"id": 1, "said": null}\n{"id": 2, "said": "Hi"}\n')
    opened = open_table(path, "utf-8")
    assert (opened.columns, opened.worded) == (("id", "said"), ("said",))
    assert len(list(opened.rows)) == 2


def test_the_wanted_column_wins_over_the_obvious_one() -> None:
    assert column(table("text", "title"), "title", ("text",)) == "title"


def test_missing_column_names_the_columns_there_are() -> None:
    reviews = table("text", "stars", "date", worded=("text", "date"))
    with pytest.raises(GlassformerError) as error:
        column(reviews, "label", ("label",), role="label", used=("text",))
    assert str(error.value) == (
        'reviews.csv has no column "label" (columns: text, stars, date). Pass --label-column NAME.'
    )


def test_a_misspelt_column_suggests_the_nearest() -> None:
    with pytest.raises(GlassformerError, match=r"Pass --text-column review\.$"):
        column(table("id", "stars", "review"), "reviwe", ("text",))


def test_a_column_that_fits_is_suggested_for_a_wrong_name(tmp_path: Path) -> None:
    rows = (f"{n % 2},A text with the number {n} in it" for n in range(20))
    opened = open_table(written(tmp_path / "a.csv", "\n".join(rows)), "utf-8")
    for role, number in (("label", 1), ("text", 2)):
        with pytest.raises(GlassformerError, match=rf"Pass --{role}-column {number}\."):
            column(opened, "topic", (), role)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("text", "review"), "has several columns that could be the text (columns: text, review)"),
        (("id", "a", "b"), "has no obvious text column (columns: id, a, b). Pass --text-"),
        (
            tuple(f"c{number}" for number in range(500)),
            "c19, and 480 more). Pass --text-column c1 or c2 or c3.",
        ),
    ],
)
def test_an_unclear_text_column_is_asked_for(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(GlassformerError) as error:
        column(table(*columns, worded=columns[1:]), None, ("text", "review"))
    assert message in str(error.value)


# --- the extra, and what is not there ---


@pytest.mark.parametrize(
    ("package", "source"), [("pyarrow", "a.parquet"), ("datasets", "some/set")]
)
def test_a_missing_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(GlassformerError) as error:
        open_table(source, "utf-8")
    assert str(error.value).startswith(f"{source} ")
    assert f"run {sys.executable} -m pip install {package}." in str(error.value).replace(
        "Run", "run"
    )


def test_a_missing_file_never_asks_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    written(tmp_path / "data/reviews.csv", "text\nFine.\n")
    with pytest.raises(
        GlassformerError, match=r"does not exist\. Did you mean data/reviews\.csv\?"
    ):
        open_table("data/review.csv", "utf-8")
    with pytest.raises(GlassformerError, match="Pass a file, a folder, or a Hugging Face dataset"):
        open_table("nowhere.jsonl", "utf-8")
