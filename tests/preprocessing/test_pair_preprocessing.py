"""Sentences of two languages have their ends, and a start where a decoder needs one."""

import json
from pathlib import Path

import numpy as np
import pytest
from preprocessing_kinds import EXAMPLES, WORDS
from pydantic import ValidationError
from tokenizers import Tokenizer as Backend
from tokenizers import models

from glassformer.preprocessing import load_preprocessing
from glassformer.preprocessing.text import PairPreprocessing, TargetLength
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import START, Tokenizer


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


# --- how long a translation may become ---


@pytest.mark.parametrize("seed", range(40))
def test_every_pair_of_training_is_shorter_than_the_limit(seed: int) -> None:
    """Whatever the ratio of the lengths is, and however odd a few of the pairs are."""
    draw = np.random.default_rng(seed)
    sources = draw.integers(1, 60, 500)
    ratio = 10 ** draw.uniform(-1, 1)
    targets = np.maximum(1, np.round(sources * ratio * draw.uniform(0.5, 1.5, 500))).astype(int)
    targets[: seed % 4] = 700  # misaligned pairs
    known = TargetLength.of(sources, targets)
    limits = np.array([known.limit(int(length)) for length in sources])
    assert (targets < limits).all()
    pair = PairPreprocessing(tokenizer=WORDS, target_length=known)
    assert all(pair.longest_target(int(n), context=64) <= 64 for n in sources)


def test_a_few_odd_pairs_do_not_raise_the_limit_of_long_sentences() -> None:
    sources, targets = np.full(1000, 20), np.full(1000, 20)
    usual = TargetLength.of(sources, targets).limit(200)
    sources[0], targets[0] = 1, 50  # a ratio of 50
    assert TargetLength.of(sources, targets).limit(200) < usual + 100


def test_the_lengths_of_training_are_saved_and_may_be_missing(tmp_path: Path) -> None:
    known = TargetLength(ratio=5.25, offset=3)
    PairPreprocessing(tokenizer=WORDS, target_length=known).save(tmp_path)
    found = load_preprocessing(tmp_path)
    assert isinstance(found, PairPreprocessing)
    assert found.target_length == known
    settings = json.loads((tmp_path / "preprocessor_config.json").read_text())
    del settings["target_length"]
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    old = load_preprocessing(tmp_path)
    assert isinstance(old, PairPreprocessing)
    assert old.longest_target(3, context=99) == 99
