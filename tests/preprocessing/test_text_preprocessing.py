"""Texts are read as in training: the same tokens, the same columns."""

from pathlib import Path

import pytest
from preprocessing_kinds import EXAMPLES
from pydantic import ValidationError

from glassformer.preprocessing.text import MaskedTextPreprocessing, TextPreprocessing
from glassformer.text.framing import MASK
from glassformer.text.tokenizer_training import train_tokenizer


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


def test_other_columns_can_be_named(tmp_path: Path, text: TextPreprocessing) -> None:
    path = tmp_path / "test.csv"
    path.write_text("verdict,body,title,mark\nbad,story,a,1\ngood,film,the,2\n")
    found, _ = text.read_labelled([str(path)], ("body",), "mark", "utf-8")
    assert [(each.input, each.labels) for each in found] == [("story", ("1",)), ("film", ("2",))]


def test_a_row_fits_the_model_and_keeps_both_ends_of_a_long_text(text: TextPreprocessing) -> None:
    encoded = text.encode(["good", "a good film and a bad story"])
    rows, is_shortened = text.fit(encoded, 9)
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
