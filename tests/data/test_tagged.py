"""Every word keeps its tag, and a word without one is said with its place."""

import gzip
from pathlib import Path

import pytest

from glassformer.data.tagged import (
    Sentence,
    TaggedConfig,
    TaggedSplit,
    read_sentences,
    read_tagged,
)
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


def written(path: Path, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def pairs(path: str | Path, label_column: str | None = None) -> list[list[tuple[str, str]]]:
    found = read_sentences([str(path)], label_column)
    return [list(zip(each.words, each.tags, strict=True)) for each in found]


def complaint(path: str, label_column: str | None = None) -> str:
    with pytest.raises(GlassformerError) as error:
        list(read_sentences([path], label_column))
    return str(error.value)


def split(path: str, seed: int = 0, **settings: object) -> TaggedSplit:
    return read_tagged(TaggedConfig.model_validate({"paths": path, **settings}), seed)


def sentences(path: Path, number: int) -> str:
    return written(path, "\n".join(f"word{n}\tB\nand\tO\n" for n in range(number)))


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


def test_a_word_may_hold_blanks_between_tabs(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "New York\tB\n#tag\tO\nx\u200by\u00a0z\tO\n")
    assert pairs(path) == [[("New York", "B"), ("#tag", "O"), ("x\u200by\u00a0z", "O")]]


def test_the_column_of_the_tags_may_be_numbered(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "EU NNP B-ORG\n")
    assert pairs(path, "2") == [[("EU", "NNP")]]
    assert "so that there is no column 4" in complaint(path, "4")
    with pytest.raises(UsageError, match="its columns have no names"):
        pairs(path, "ner")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("EU\tB\nrejects\n", ':2 has no tag for "rejects".'),
        ("EU\tB\nrejects\t\n", ':2 has no tag for "rejects".'),
        ("EU\tB\n\tO\n", ":2 has a tag but no word."),
        ("EU NNP B\nrejects O\n", ":2 has 2 columns, but the first line of words has 3."),
        ("", "is empty"),
        ("\n\n# nothing\n", "has no sentences in it"),
        ("a\tO\n\0\tO\n", ":2: a NUL byte."),
    ],
)
def test_bad_columns_are_refused(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.conll", content))


def test_an_empty_tag_in_the_middle_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conll", "EU\t\tB\n")
    assert ':1 has no tag for "EU".' in complaint(path, "2")


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
    with pytest.raises(UsageError, match="Say another --label-column"):
        pairs(written(tmp_path / "a.conllu", CONLLU), column)


def test_bad_conllu_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.conllu", "# a\n1\tDo\tdo\tAUX\n")
    assert f"{path}:2 has 4 columns, but CoNLL-U has 10" in complaint(path)
    path = written(tmp_path / "b.conllu", "1\tDo\tdo\t_\tVB\t_\t0\troot\t_\t_\n")
    assert f'{path}:1 has no upos for "Do".' in complaint(path)


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
    assert "more than one column that may be the label" in complaint(str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('{"tokens": ["a", "b"], "tags": ["O"]}', ':1 has 2 words in "tokens" but 1 tag in "tags"'),
        ('{"tokens": "a b", "tags": ["O"]}', ':1: column "tokens" does not hold a list.'),
        ('{"tokens": ["a"], "tags": null}', ':1: column "tags" does not hold a list.'),
        ('{"tokens": [7], "tags": ["O"]}', ':1: column "tokens" holds 7 among its words.'),
        ('{"tokens": ["a"], "tags": [null]}', ':1 has no label in column "tags".'),
        ('{"tokens": [], "tags": []}', "has no sentences in it"),
        ('{"a": ["a"], "b": ["O"]}', "has no column that is plainly the text"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, row: str, problem: str) -> None:
    assert problem in complaint(written(tmp_path / "a.jsonl", row))


def test_the_words_may_be_in_a_named_column(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"w": ["a"], "tags": ["O"]}')
    assert next(read_sentences([path], text_column=["w"])).words == ("a",)
    with pytest.raises(UsageError, match="the words are in one column"):
        list(read_sentences([path], text_column=["w", "v"]))


# --- folders ---


def test_a_folder_is_read_by_name(tmp_path: Path) -> None:
    for name in ("b.conll", "a.bio", ".c.conll"):
        written(tmp_path / name, f"{name} O\n")
    written(tmp_path / "SOURCE.txt", "where it is from\n")
    written(tmp_path / "empty.conll", "")
    assert pairs(tmp_path) == [[("a.bio", "O")], [("b.conll", "O")]]


def test_a_folder_without_such_files_is_refused(tmp_path: Path) -> None:
    assert "has no files to read" in complaint(str(tmp_path))
    written(tmp_path / "a.conll", "")
    assert "has only empty files" in complaint(str(tmp_path))
    assert "does not exist" in complaint(str(tmp_path / "b.conll"))


# --- splitting ---


def test_sentences_are_held_out_by_lot(tmp_path: Path) -> None:
    path = sentences(tmp_path / "a.conll", 50)
    found = split(path)
    assert (len(found.training), len(found.validation)) == (45, 5)
    assert found.held_out == "5 of 50 sentences, by lot from every label"
    assert (found.tags, found.notes, found.label_column) == (("O", "B"), [], None)
    assert split(path) == found
    assert split(path, seed=1).validation != found.validation


def test_equal_sentences_stay_on_one_side(tmp_path: Path) -> None:
    lines = "\n".join(f"word{n % 20}\tB\nand\tO\n" for n in range(60))
    found = split(written(tmp_path / "a.conll", lines))
    assert found.validation
    assert not {each.words for each in found.training} & {each.words for each in found.validation}
    assert "40 sentences repeat another exactly" in found.notes[0]


def test_tags_that_training_lacks_stay_in_with_a_note(tmp_path: Path) -> None:
    path = sentences(tmp_path / "a.conll", 3)
    other = written(tmp_path / "b.conll", "word0 B\nand O\n\nx Z\ny Z\nz Q\n")
    found = split(path, validation_paths=other)
    assert len(found.validation) == 2
    assert (found.tags, found.held_out) == (("O", "B"), f"all of {other}")
    assert found.notes == [
        "training lacks 2 tags of validation, so that these words will count as wrong: "
        "Z (2), Q (1)",
        "1 sentence of validation is also in training",
    ]


def test_the_column_that_was_used_is_known(tmp_path: Path) -> None:
    more = CONLLU.replace("go", "run").replace("#\t", "*\t")
    path = written(tmp_path / "a.conllu", f"{CONLLU}\n{more}")
    assert split(path).label_column == "upos"
    assert split(path, label_column="xpos").label_column == "xpos"
    rows = '{"tokens": ["a", "b"], "ner_tags": [0, 1]}\n{"tokens": ["c", "d"], "ner_tags": [0, 1]}'
    assert split(written(tmp_path / "a.jsonl", rows)).label_column == "ner_tags"


def test_too_little_to_learn_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match='every word has the same tag \\("O"\\)'):
        split(written(tmp_path / "a.conll", "a O\n\nb O\n"))
    with pytest.raises(GlassformerError, match="none can be held out"):
        split(sentences(tmp_path / "b.conll", 1))
