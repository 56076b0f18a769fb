"""Texts are read as in training: the same tokens, the same columns."""

from pathlib import Path

import numpy as np
import pytest
from preprocessing_kinds import EXAMPLES
from pydantic import ValidationError

from glassformer.errors import GlassformerError
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import MASK


@pytest.fixture
def text() -> TextPreprocessing:
    found = EXAMPLES["text"]
    assert isinstance(found, TextPreprocessing)
    return found


def test_files_are_read_by_the_columns_of_the_training_data(
    tmp_path: Path, text: TextPreprocessing
) -> None:
    path = tmp_path / "test.csv"
    path.write_text("verdict,body,noise,title\nbad,story,9,a\ngood,film,9,the\n")
    found, _ = text.read_labelled([str(path)], (), None, "utf-8")
    assert [(each.input.split(), each.labels) for each in found] == [
        (["a", "story"], ("bad",)),
        (["the", "film"], ("good",)),
    ]
    inputs = [content.split() for content, _ in text.read_inputs([str(path)], (), "utf-8")]
    assert inputs == [["a", "story"], ["the", "film"]]


def test_labels_are_written_as_in_the_training_data(
    tmp_path: Path, text: TextPreprocessing
) -> None:
    trained = text.model_copy(update={"label_separator": ";"})
    path = tmp_path / "joined.csv"
    path.write_text("body,verdict\nstory,bad; long\nfilm,good\n")
    found, _ = trained.read_labelled([str(path)], ("body",), "verdict")
    assert [each.labels for each in found] == [("bad", "long"), ("good",)]
    trained = text.model_copy(update={"label_column": "bad,long"})
    path = tmp_path / "columns.csv"
    path.write_text("body,title,long,bad\nstory,a,1,1\nfilm,the,0,0\n")
    found, _ = trained.read_labelled([str(path)], ("body",))
    assert [each.labels for each in found] == [("bad", "long"), ()]


def test_other_columns_can_be_named(tmp_path: Path, text: TextPreprocessing) -> None:
    path = tmp_path / "test.csv"
    path.write_text("verdict,body,title,mark\nbad,story,a,1\ngood,film,the,2\n")
    found, _ = text.read_labelled([str(path)], ("body",), "mark", "utf-8")
    assert [(each.input, each.labels) for each in found] == [("story", ("1",)), ("film", ("2",))]


def test_a_row_fits_the_model_and_keeps_both_ends_of_a_long_text(text: TextPreprocessing) -> None:
    encoded = text.encode(["good", "a good film and a bad story"])
    rows, is_shortened = text.rows(encoded, 9)
    end = text.tokenizer.end_of_text  # of a model that reads from left to right
    assert is_shortened == [len(ids) + 1 > 9 for ids in encoded] == [False, True]
    assert rows[0] == [*encoded[0], end]
    assert len(rows[1]) == 9
    assert (rows[1][:2], rows[1][2:]) == (encoded[1][:2], [*encoded[1][-6:], end])


@pytest.mark.parametrize(("size", "dtype"), [(2**16, "<u2"), (2**16 + 1, "<u4")])
def test_ids_are_stored_in_the_smallest_type(size: int, dtype: str) -> None:
    tokenizer = train_tokenizer("word", ["good"])
    tokenizer.__dict__["vocab_size"] = size
    assert TextPreprocessing(tokenizer=tokenizer).dtype == dtype


def test_the_mask_is_a_token_of_its_own() -> None:
    masked = EXAMPLES["masked_text"]
    assert isinstance(masked, MaskedTextPreprocessing)
    assert masked.tokenizer.token(masked.mask) == MASK
    with pytest.raises(ValidationError, match=r"has no token \[MASK\]"):
        MaskedTextPreprocessing(tokenizer=train_tokenizer("word", ["good"]))


def test_ids_of_files_are_mapped_and_their_bytes_counted(
    tmp_path: Path, text: TextPreprocessing
) -> None:
    (tmp_path / "a.txt").write_text("a good film\n" * 3)
    (tmp_path / "b.csv").write_text("title,body\nthe,story\n")
    paths = [str(tmp_path / "a.txt"), str(tmp_path / "b.csv")]
    ids, size = text.read_ids(paths, (), "utf-8")
    assert isinstance(ids, np.memmap)
    end = text.tokenizer.end_of_text
    first, second = text.tokenizer.encode("a good film\n" * 3), text.tokenizer.encode("the\nstory")
    assert ids.tolist() == [end, *first, end, *second, end]
    assert size.total == 36 + len("the\nstory")


def test_a_file_without_a_header_is_read_whatever_the_columns_of_training(
    tmp_path: Path, text: TextPreprocessing
) -> None:
    trained = text.model_copy(update={"text_column": ("review",), "label_column": "stars"})
    path = tmp_path / "a.tsv"
    path.write_text("great film\tpos\nbad film\tneg\nfine\tpos\n")
    examples, notes = trained.read_labelled([str(path)])
    assert [(each.text, each.labels) for each in examples] == [
        ("great film", ("pos",)),
        ("bad film", ("neg",)),
        ("fine", ("pos",)),
    ]
    assert "has no header" in notes[0]
    assert [each for each, _ in trained.read_inputs([str(path)], (), "utf-8")] == [
        *("great film", "bad film", "fine")
    ]
    with pytest.raises(GlassformerError, match=r'has no column "(review|stars)"'):
        trained.read_labelled([str(path)], ["review"], "stars")
    path.write_text("id\treview\tstars\n1\tgreat film\t5\n2\tbad film\t1\n")
    examples, _ = trained.read_labelled([str(path)])
    assert [each.text for each in examples] == ["great film", "bad film"]
