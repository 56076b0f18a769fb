"""Words that are looked up have the ids that the library gives to the whole text."""

import random
from typing import Any

import numpy as np
import pytest

from glassformer.preprocessing.text import PairPreprocessing
from glassformer.text import word_cache
from glassformer.text.tokenizer_training import TokenizerConfig, train_tokenizer
from glassformer.text.tokenizers import START
from glassformer.text.word_cache import id_type

WORDS = (
    *("the", "Cat", "SAT", "don't", "3.14", "x=y+1", "…", "état", "ΟΔΟΣ", "ς", "a\u3000b", "\xa0"),
    *(
        "我喜欢你。",
        "สวัสดี",
        "مرحبا",
        "👩\u200d👩\u200d👧",
        "e\u0301",
        "\u2028",
        "x" * 60,
        "<|endoftext|>",
    ),
)


def texts(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    found = [" ".join(draw.choices(WORDS, k=draw.randint(0, 12))) for _ in range(count)]
    return [*found, "", " ", "  two  blanks ", " first"]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", ["char", "word", "wordpiece", "bpe", "unigram"])
def test_rows_are_those_of_the_library(
    monkeypatch: pytest.MonkeyPatch, kind: Any, lowercase: bool
) -> None:
    monkeypatch.setattr(word_cache, "_MOST", 12)
    config = TokenizerConfig(kind=kind, lowercase=lowercase)
    tokenizer = train_tokenizer(config, [f" {text}" for text in texts(200, 0)], 600, [START])
    pair = PairPreprocessing(tokenizer=tokenizer)
    source, target = pair.row_encoders()
    for seed in range(4):
        lines = texts(40, seed)
        for encode, whole in ((source, pair.encode_source), (target, pair.encode_target)):
            rows = [np.frombuffer(row, pair.dtype).tolist() for row in encode(lines)]
            assert rows == whole(lines)
    assert source([]) == []


def test_an_id_type_holds_every_id() -> None:
    assert [id_type(size).itemsize for size in (300, 2**16, 2**16 + 1)] == [2, 2, 4]
