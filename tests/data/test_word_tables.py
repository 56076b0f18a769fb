"""Tables with a row for each word: the id of the sentence, the word, its tags."""

import json
from pathlib import Path

import pytest
from written_files import written

from glassformer.data.tagged_sentences import TaggedConfig, read_sentences, read_tagged
from glassformer.errors import GlassformerError

TABLE = "Sentence #,Word,Tag\nSentence: 1,EU,B-ORG\n,rejects,O\nSentence: 2,No,O\n"


def pairs(path: str | Path, label_column: str | None = None) -> list[list[tuple[str, str]]]:
    found = read_sentences([str(path)], label_column)
    return [list(zip(each.words, each.tags, strict=True)) for each in found]


def complaint(path: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        list(read_sentences([path], label_column))
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TABLE),
        ("a.csv", "sentence_id,word,tag\n1,EU,B-ORG\n1,rejects,O\n2,No,O\n"),
        ("a.csv", "sep=;\nSentId;token;label\n1;EU;B-ORG\n1;rejects;O\n2;No;O\n"),
        ("a.tsv", "sentence_id\tword\ttag\n1\tEU\tB-ORG\n1\trejects\tO\n2\tNo\tO\n"),
        (
            "a.jsonl",
            "".join(
                json.dumps({"sentence_idx": n, "word": word, "tag": tag}) + "\n"
                for n, word, tag in [(1, "EU", "B-ORG"), (1, "rejects", "O"), (2, "No", "O")]
            ),
        ),
    ],
)
def test_a_row_for_each_word(tmp_path: Path, name: str, content: str) -> None:
    path = written(tmp_path / name, content)
    assert pairs(path) == [[("EU", "B-ORG"), ("rejects", "O")], [("No", "O")]]


def test_a_sentence_is_placed_at_its_first_word(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", TABLE)
    assert [each.source for each in read_sentences([path])] == [f"{path}:2", f"{path}:4"]


def test_of_several_columns_of_tags_one_is_named(tmp_path: Path) -> None:
    table = "Sentence #,Word,POS,Tag\n1,EU,NNP,B-ORG\n1,rejects,VBZ,O\n"
    path = written(tmp_path / "a.csv", table)
    assert pairs(path, "Tag") == [[("EU", "B-ORG"), ("rejects", "O")]]
    assert pairs(path, "POS") == [[("EU", "NNP"), ("rejects", "VBZ")]]
    assert "several columns that could be the label" in complaint(path)
    assert complaint(path).endswith("Pass --label-column POS or Tag.")


def test_the_columns_are_reported(tmp_path: Path) -> None:
    rows = "".join(f"{n},word{n},{'AB'[n % 2]},x\n" for n in range(30))
    path = written(tmp_path / "a.csv", f"sentence_id,word,tag,note\n{rows}")
    split = read_tagged(TaggedConfig(paths=(path,)), seed=0)
    assert split.columns == ["columns: sentences sentence_id; words word; tags tag; not used: note"]
    assert split.label_column == "tag"


def test_lists_with_a_sentence_id_are_still_lists(tmp_path: Path) -> None:
    row = {"sentence_id": 1, "tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}
    path = written(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    assert pairs(path) == [[("EU", "B-ORG"), ("rejects", "O")]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,EU,O\n2,No,O\n1,rejects,O\n", 'a.csv:4: sentence "1" began at'),
        (",EU,O\n1,No,O\n", 'a.csv:2: no sentence in column "sentence_id"'),
        ("1,EU,O\n1,No,O\n,rejects,O\n", 'a.csv:4: no sentence in column "sentence_id"'),
        ("1,,O\n", 'a.csv:2: no word in column "word"'),
        ("1,EU,\n", 'a.csv:2: no label in column "tag"'),
        ("1,EU\n", "a.csv:2: expected 3 fields"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, rows: str, message: str) -> None:
    path = written(tmp_path / "a.csv", f"sentence_id,word,tag\n{rows}")
    assert message in complaint(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("text,label", "no column with the number of the sentence, such as sentence_id"),
        ("sentence_id,word,kind,mood", "Pass --label-column"),
    ],
)
def test_a_missing_column_is_named(tmp_path: Path, header: str, message: str) -> None:
    rows = "".join(",".join(f"{c}{n % 3}" for c in header.split(",")) + "\n" for n in range(9))
    path = written(tmp_path / "a.csv", f"{header}\n{rows}")
    assert message in complaint(path)


def test_other_tables_in_a_folder_are_skipped(tmp_path: Path) -> None:
    written(tmp_path / "all/a.csv", TABLE)
    written(tmp_path / "all/b.csv", "text,label\nfine film,good\nawful film,bad\n")
    assert len(pairs(tmp_path / "all")) == 2
