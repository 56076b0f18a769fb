"""Every word keeps its tag, and a word without one is said with its place."""

import tracemalloc
from pathlib import Path

import pytest
from written_files import written

from glassformer.data.tagged_sentences import Sentence, read_sentences
from glassformer.errors import GlassformerError, UsageError

CONLLU = """# sent_id = 1
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tyou\tyou\tPRON\tPRP\t_\t_\t_\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_

1\t#\t#\tSYM\tNN\t_\t0\troot\t_\t_
"""


def pairs(path: str | Path, label_column: str | None = None) -> list[list[tuple[str, str]]]:
    found = read_sentences([str(path)], label_column)
    return [list(zip(each.words, each.tags, strict=True)) for each in found]


def complaint(path: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        list(read_sentences([path], label_column))
    return str(error.value)


# --- columns ---


@pytest.mark.parametrize("name", ["a.conll", "a.bio", "a.txt", "a.tsv", "a.annotated", "a.iob2.gz"])
@pytest.mark.parametrize(
    "content",
    [
        "EU\tB-ORG\nrejects\tO\n\nNo\tO\n",
        "\ufeffEU B-ORG\r\nrejects O\r\n\r\nNo  O",
        "\t\nEU\tB-ORG\nrejects\tO\n\t\n \nNo\tO\n\t\n",
        "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\nNo UH O\n",
        "# id = 7\nEU\tB-ORG\n# in between\nrejects\tO\n\n# text = No\nNo\tO\t\n",
    ],
)
def test_columns_of_words_and_tags(tmp_path: Path, name: str, content: str) -> None:
    path = written(tmp_path / name, content)
    assert pairs(path) == [[("EU", "B-ORG"), ("rejects", "O")], [("No", "O")]]


def test_a_sentence_is_placed_at_its_first_word(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "# one\na\tO\nb\tX\n\n\nc\tO\n")
    assert list(read_sentences([path])) == [
        Sentence(("a", "b"), ("O", "X"), f"{path}:2"),
        Sentence(("c",), ("O",), f"{path}:6"),
    ]


@pytest.mark.parametrize("content", ["No O\n# O\n1 B\n", "No\tO\n#\tO\n1\tB\n"])
def test_a_word_may_be_a_hash(tmp_path: Path, content: str) -> None:
    path = written(tmp_path / "a.conll", content)
    assert pairs(path) == [[("No", "O"), ("#", "O"), ("1", "B")]]


def test_a_word_may_be_a_hash_late_in_a_long_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "a O\nb O\n\n" * 5_000 + "c B-late\n# id\n# B-late\n")
    assert pairs(path)[-1] == [("c", "B-late"), ("#", "B-late")]


def test_a_file_of_columns_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    lines = (f"{n:x} {n} O\nof {n} O\n\n" for n in range(40_000))
    path = written(tmp_path / "a.conll", "".join(lines))
    next(read_sentences([path]))  # imports
    tracemalloc.start()
    count = sum(1 for _ in read_sentences([path]))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 40_000
    assert most < 4_000_000  # all lines together take more than 8 MB


def test_a_word_may_hold_blanks_between_tabs(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "New York\tB\n#tag\tO\nx\u200by\u00a0z\tO\n")
    assert pairs(path) == [[("New York", "B"), ("#tag", "O"), ("x\u200by\u00a0z", "O")]]


def test_the_column_of_the_tags_may_be_numbered(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "EU NNP B-ORG\n")
    assert pairs(path, "2") == [[("EU", "NNP")]]
    assert "so there is no column 4" in complaint(path, "4")
    with pytest.raises(UsageError, match="its columns have no names"):
        pairs(path, "ner")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("EU\tB\nrejects\n", ':2: no tag for "rejects".'),
        ("EU\tB\nrejects\t\n", ':2: no tag for "rejects".'),
        ("EU\tB\n\tO\n", ":2: a tag without a word."),
        ("EU NNP B\nrejects O\n", ":2: expected 3 columns as in the first line of words, found 2."),
        ("", "is empty"),
        ("\n\n# nothing\n", "contains no sentences"),
        ("a\tO\n\0\tO\n", ":2: NUL byte."),
    ],
)
def test_bad_columns_are_refused(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.conll", content))


def test_an_empty_tag_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "EU\t\tB\n")
    assert ':1: no tag for "EU".' in complaint(path, "2")


# --- CoNLL-U ---


@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.gz"])
def test_conllu_without_ranges_and_empty_nodes(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, CONLLU)
    assert pairs(path) == [[("Do", "AUX"), ("n't", "PART"), ("go", "VERB")], [("#", "SYM")]]
    assert next(read_sentences([path])).source == f"{path}:4"


@pytest.mark.parametrize("column", ["xpos", "XPOS", "5"])
def test_conllu_has_other_tags(tmp_path: Path, column: str) -> None:
    path = written(tmp_path / "a.conllu", CONLLU)
    assert [tag for _, tag in pairs(path, column)[0]] == ["VB", "RB", "VB"]


@pytest.mark.parametrize("column", ["ner", "0", "11"])
def test_conllu_has_ten_columns(tmp_path: Path, column: str) -> None:
    with pytest.raises(UsageError, match="Pass another --label-column"):
        pairs(written(tmp_path / "a.conllu", CONLLU), column)


def test_bad_conllu_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conllu", "# a\n1\tDo\tdo\tAUX\n")
    assert f"{path}:2: expected the 10 tab-separated columns of CoNLL-U, found 4" in complaint(path)
    path = written(tmp_path / "b.conllu", "1\tDo\tdo\t_\tVB\t_\t0\troot\t_\t_\n")
    assert f'{path}:1: no upos for "Do".' in complaint(path)


# --- tables ---


def test_lists_in_jsonl(tmp_path: Path) -> None:
    rows = '{"tokens": ["EU", "is"], "ner_tags": [3, 0]}\n{"tokens": [], "ner_tags": []}\n'
    path = written(tmp_path / "a.jsonl", rows)
    assert list(read_sentences([path])) == [Sentence(("EU", "is"), ("3", "0"), f"{path}:1")]


def test_lists_in_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {"words": [["EU"]], "pos_tags": [["NNP"]], "ner_tags": [["B"]]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    assert pairs(tmp_path / "a.parquet", "pos_tags") == [[("EU", "NNP")]]
    assert "several columns that could be the label" in complaint(str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('{"tokens": ["a", "b"], "tags": ["O"]}', ':1: 2 words in "tokens" but 1 tag in "tags"'),
        ('{"tokens": "a b", "tags": ["O"]}', ':1: column "tokens" does not contain a list.'),
        ('{"tokens": ["a"], "tags": null}', ':1: column "tags" does not contain a list.'),
        ('{"tokens": [7], "tags": ["O"]}', ':1: column "tokens" contains 7 among its words.'),
        ('{"tokens": ["a"], "tags": [null]}', ':1: no label in column "tags".'),
        ('{"tokens": [], "tags": []}', "contains no sentences"),
        ('{"a": ["a"], "b": ["O"]}', "has no obvious text column"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, row: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.jsonl", row))


def test_the_words_may_be_in_a_named_column(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"w": ["a"], "tags": ["O"]}')
    assert next(read_sentences([path], text_column=["w"])).words == ("a",)
    with pytest.raises(UsageError, match="the words must be in one column"):
        list(read_sentences([path], text_column=["w", "v"]))


# --- folders ---


def test_a_folder_is_read_by_name(tmp_path: Path) -> None:
    for name in ("b.conll", "a.bio", ".c.conll"):
        written(tmp_path / name, f"{name} O\n")
    written(tmp_path / "SOURCE.txt", "where it is from\n")
    written(tmp_path / "empty.conll", "")
    assert pairs(tmp_path) == [[("a.bio", "O")], [("b.conll", "O")]]


def test_a_folder_without_such_files_is_refused(tmp_path: Path) -> None:
    assert "contains no files to read" in complaint(str(tmp_path))
    written(tmp_path / "a.conll", "")
    assert "contains only empty files" in complaint(str(tmp_path))
    assert "does not exist" in complaint(str(tmp_path / "b.conll"))
