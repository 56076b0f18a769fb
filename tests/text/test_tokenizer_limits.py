"""Tokenizer files that are not what they seem: refused with a sentence, and soon."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import Tokenizer

DOUBLE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BACKTRACKING = {"type": "Split", "pattern": {"Regex": "(a+)+$b"}, "behavior": "Isolated"}
WORDS = {"type": "WordLevel", "vocab": {"a": 0, "<|unk|>": 1}, "unk_token": "<|unk|>"}


def saved(path: Path, **parts: Any) -> Path:
    empty = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "decoder"))
    values = {"version": "1.0", "added_tokens": [], "post_processor": None, "model": WORDS}
    path.write_text(json.dumps({**values, **empty, **parts}))
    return path


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "cannot be used"),
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8A"}},
            "cannot be used",
        ),
        (
            {"normalizer": {"type": "Sequence", "normalizers": [DOUBLE] * 16}},
            "up to 65,536 characters",
        ),
        (
            {"decoder": {"type": "Sequence", "decoders": [DOUBLE] * 600}},
            "its decoder replaces one character by more than 1,000,000 characters. Copy",
        ),
        ({"normalizer": {"type": "Prepend", "prepend": "a" * 1000}}, "up to 1,001 characters"),
        (
            {"normalizer": {"type": "Replace", "pattern": {"Regex": "."}, "content": "a" * 99}},
            "up to 99 characters",
        ),
    ],
)
def test_a_file_that_would_do_harm_is_refused(
    tmp_path: Path, parts: dict[str, Any], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "tokenizer.json", **parts)
    with pytest.raises(GlassformerError) as raised:
        Tokenizer.load(path)
    assert str(path) in str(raised.value)
    assert problem in str(raised.value)
    assert ".." not in str(raised.value)
    assert capfd.readouterr().err == ""  # the library reports its panics before they can be caught


def test_harmless_replacements_are_not(tmp_path: Path) -> None:
    steps = [{"type": "Prepend", "prepend": "▁"}, DOUBLE, {"type": "NFKC"}, {"type": "Lowercase"}]
    normalizer = {"type": "Sequence", "normalizers": steps}
    Tokenizer.load(saved(tmp_path / "tokenizer.json", normalizer=normalizer)).encode("a")


def test_a_pattern_that_gives_up_on_a_text_is_an_error_of_ours(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    split = BACKTRACKING | {"invert": False}
    tokenizer = Tokenizer.load(saved(tmp_path / "tokenizer.json", pre_tokenizer=split))
    for use in (tokenizer.encode, tokenizer.spans):
        with pytest.raises(GlassformerError, match=r"fails on this text .*Use another tokenizer"):
            use("a" * 40)
        assert capfd.readouterr().err == ""


def test_threads_that_encode_at_once_do_not_lose_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    split = BACKTRACKING | {"invert": False}
    tokenizer = Tokenizer.load(saved(tmp_path / "tokenizer.json", pre_tokenizer=split))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tokenizer.encode, ["a a"] * 400))
    os.write(2, b"still here")
    assert capfd.readouterr().err == "still here"


@pytest.mark.parametrize(
    "part",
    [
        {"padding": {"strategy": {"Fixed": 10_000_000}, "direction": "Right", "pad_id": 0}},
        {"truncation": {"max_length": 1, "strategy": "LongestFirst", "stride": 0}},
    ],
)
def test_texts_are_neither_padded_nor_truncated(tmp_path: Path, part: dict[str, Any]) -> None:
    resource = pytest.importorskip("resource")
    more = {"pad_to_multiple_of": None, "pad_type_id": 0, "pad_token": "a"}
    part = {key: {**value, **(more if key == "padding" else {})} for key, value in part.items()}
    space = {"type": "WhitespaceSplit"}
    path = saved(tmp_path / "tokenizer.json", pre_tokenizer=space, **part)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert Tokenizer.load(path).encode("a a a") == [0, 0, 0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_json_that_is_nested_too_deeply_is_not_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("[" * 100_000)
    with pytest.raises(GlassformerError, match="is damaged or not a tokenizer"):
        Tokenizer.load(tmp_path / "tokenizer.json")
