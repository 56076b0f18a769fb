"""Columns by their content: headers that are missing, several texts, labels that are none."""

from pathlib import Path

import pytest
from written_files import written

from glassformer.data.documents import read_documents
from glassformer.data.labelled_texts import LabelledTextsConfig, read_examples, read_labelled
from glassformer.data.tables import open_table
from glassformer.errors import GlassformerError, UsageError

HEADLINES = [f"The council of town {n} met again on Monday" for n in range(40)]
KINDS = ("business", "sport", "culture")


def rows(*columns: list[str]) -> str:
    return "".join(",".join(row) + "\n" for row in zip(*columns, strict=True))


def labels(number: int = 40) -> list[str]:
    return [KINDS[n % 3] for n in range(number)]


def split_of(path: str, **options: object) -> object:
    return read_labelled(LabelledTextsConfig.model_validate({"paths": (path,), **options}), seed=0)


def complaint(path: str, **options: object) -> str:
    with pytest.raises(GlassformerError) as error:
        split_of(path, **options)
    return str(error.value)


@pytest.mark.parametrize("first", ["labels first", "texts first", "numbers", "short texts"])
def test_a_missing_header_is_noticed(tmp_path: Path, first: str) -> None:
    texts = HEADLINES if first != "short texts" else [f"town {n}" for n in range(40)]
    kinds = [str(n % 4 + 1) for n in range(40)] if first == "numbers" else labels()
    is_first = first in ("labels first", "numbers")
    columns = (kinds, texts) if is_first else (texts, kinds)
    path = written(tmp_path / "a.csv", rows(*columns))
    found = read_examples([path])
    assert len(found.examples) == 40
    assert found.examples[0][:2] == (texts[0], (kinds[0],))
    assert found.notes == [
        f"{path} has no header: its first line is read as a row, and its columns are called 1, 2"
    ]


@pytest.mark.parametrize(
    "content",
    [
        "quote,n\nWell.,4\nWell.,5\n",
        "2019,2020,kind\n" + "1,2,a\n3,4,b\n" * 20,
        ",words,group\n" + "0,Fine film,good\n1,Bad film,bad\n" * 20,
        "film,mood\nFine film,good\n",
    ],
)
def test_a_header_is_not_taken_for_a_row(tmp_path: Path, content: str) -> None:
    table = open_table(written(tmp_path / "a.csv", content), "utf-8")
    assert table.columns == tuple(content.split("\n")[0].split(","))


def test_without_a_header_the_only_category_is_the_label(tmp_path: Path) -> None:
    numbers = [str(1000 + n) for n in range(40)]
    path = written(tmp_path / "a.csv", rows(numbers, HEADLINES, labels()))
    found = read_examples([path])
    assert found.examples[0][:2] == (HEADLINES[0], (KINDS[0],))
    assert [*found.columns] == ["text 2; label 3; not used: 1"]
    two = [("x", "y")[n % 2] for n in range(40)]
    assert complaint(written(tmp_path / "b.csv", rows(two, HEADLINES, labels()))).endswith(
        "(columns, without a header: 1, 2, 3). Pass --label-column 1 or 3."
    )


def test_an_error_carries_what_was_detected_before_it(tmp_path: Path) -> None:
    numbers, kinds = [str(n) for n in range(40)], [f"k{n}" for n in range(40)]
    path = written(tmp_path / "a.csv", rows(numbers, HEADLINES, kinds))
    with pytest.raises(GlassformerError, match="40 different labels for 40 examples") as error:
        split_of(path, label_column="3")
    assert [each for each in error.value.__notes__ if f"{path} has no header" in each]


@pytest.mark.parametrize("text", ["group", "3"])
def test_a_column_cannot_be_the_text_and_the_label(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "a.csv", "words,by,group\nFine film,x,good\nBad film,y,bad\n")
    with pytest.raises(UsageError) as error:
        read_examples([path], text_column=[text], label_column="group")
    assert str(error.value) == (
        f'{path}: column "group" cannot be both the text and the label. Pass different columns as '
        "--text-column and --label-column (columns: words, by, group)."
    )


def test_a_column_may_be_given_by_its_number(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "words,2,group\nFine film,x,good\nBad film,y,bad\n")
    found = read_examples([path], text_column=["1"], label_column="3")
    assert found.examples[0][:2] == ("Fine film", ("good",))
    assert (found.text_column, found.label_column) == (("words",), "group")
    assert read_examples([path], ["1"], "2").examples[0].labels == ("x",)  # a name wins
    with pytest.raises(GlassformerError, match='has no column "4"'):
        read_examples([path], text_column=["4"])


def test_all_columns_of_text_are_used(tmp_path: Path) -> None:
    numbers = [str(n) for n in range(40)]
    content = "date,url,headline,body,section\n" + rows(
        [f"2024-01-{n % 28 + 1:02}" for n in range(40)],
        [f"https://a.org/{n}" for n in range(40)],
        HEADLINES,
        [f"What was decided there is number {n}." for n in numbers],
        labels(),
    )
    path = written(tmp_path / "a.csv", content)
    found = read_examples([path], label_column="section")
    assert found.text_column == ("headline", "body")
    assert [*found.columns] == ["text headline, body; label section; not used: date, url"]
    assert next(read_documents([path])).text == (
        f"{HEADLINES[0]}\nWhat was decided there is number 0."
    )


def test_the_likeliest_label_column_is_offered_first(tmp_path: Path) -> None:
    names = [f"reporter {n}" for n in range(40)]
    content = "id,by,words,kind\n" + rows([f"x{n}" for n in range(40)], names, HEADLINES, labels())
    assert complaint(written(tmp_path / "a.csv", content)).endswith("Pass --label-column kind.")


@pytest.mark.parametrize("repeated", [0, 8])
def test_nearly_a_label_per_row_is_refused(tmp_path: Path, repeated: int) -> None:
    kinds = [f"k{max(0, n - repeated)}" for n in range(40)]
    path = written(tmp_path / "a.csv", "text,label\n" + rows(HEADLINES, kinds))
    error = complaint(path)
    assert f"has {40 - repeated} different labels for 40 examples" in error


def test_sparse_whole_numbers_are_not_classes(tmp_path: Path) -> None:
    texts = [f"house number {n}" for n in range(300)]
    prices = [str(100_000 + 1_000 * (n % 120) + n % 7) for n in range(300)]
    path = written(tmp_path / "a.csv", "text,label\n" + rows(texts, prices))
    assert "different numbers. Continuous values cannot be classes" in complaint(path)


def test_a_message_quotes_no_long_value(tmp_path: Path) -> None:
    long = "word " * 400
    path = written(tmp_path / "a.csv", f"id,x{long},y{long}\n1,a,b\n2,c,d\n")
    error = complaint(path)
    assert len(error) < 400
    assert error.endswith("Pass --text-column 2 or 3.")
    assert len(complaint(path, text_column=(long,))) < 400
