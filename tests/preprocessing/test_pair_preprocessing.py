"""Sentences of two languages have their ends, and a start where a decoder needs one."""

import pytest
from preprocessing_kinds import EXAMPLES, WORDS
from pydantic import ValidationError
from tokenizers import Tokenizer as Backend
from tokenizers import models

from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.text.framing import START
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Tokenizer


def test_a_source_has_its_end_and_a_target_its_start_and_end() -> None:
    pair = PairPreprocessing(tokenizer=WORDS)
    good = WORDS.encode("good film")
    assert pair.encode_source(["good film"]) == [[*good, pair.end]]
    assert pair.encode_target(["good film"]) == [[pair.start, *good, pair.end]]
    assert pair.start == WORDS.special_tokens[START] != pair.end
    assert pair.decode([pair.start, *good, pair.end]) == "good film"


def test_each_side_has_its_own_vocabulary_if_there_are_two() -> None:
    pair = EXAMPLES["pair"]
    assert isinstance(pair, PairPreprocessing)
    assert (pair.source, pair.target) == (pair.tokenizer, pair.target_tokenizer)
    assert pair.encode_target(["guter"])[0][1:-1] == pair.target.encode("guter")
    assert pair.encode_source(["good"])[0][:-1] == pair.source.encode("good")
    assert pair.end == pair.target.end_of_text


def test_without_a_start_the_decoder_begins_with_the_end() -> None:
    pair = PairPreprocessing(tokenizer=train_tokenizer("word", ["good film"]))
    assert pair.start == pair.end


@pytest.mark.parametrize("side", ["tokenizer", "target_tokenizer"])
def test_a_tokenizer_without_an_end_is_refused(side: str) -> None:
    endless = Tokenizer(Backend(models.WordLevel({"a": 0, "b": 1})))
    with pytest.raises(ValidationError, match="needs an end-of-text token"):
        PairPreprocessing.model_validate({"tokenizer": WORDS} | {side: endless})
