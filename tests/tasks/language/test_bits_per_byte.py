"""Bits per byte of tokenizers that do not know every word: in validation, evaluate and compare."""

import math
from pathlib import Path
from typing import Any

import pytest
from small_tasks import MACHINE, best, trained

from glassformer.comparison import compare
from glassformer.tasks import load
from glassformer.training.preparation import make_recipe

LINES = [
    f"the {animal}{n} sees the {other}{n * 7 % 31}.\n"
    for n in range(60)
    for animal, other in (("cat", "zebra"), ("dog", "yak"))
]
HELD_OUT = "the cat77 sees the zebra28.\nthe dog66 sees the yak29.\n" * 20


def run_of(folder: Path, tokenizer: dict[str, Any], steps: int) -> Path:
    (folder / "text.txt").write_text("".join(LINES))
    (folder / "held_out.txt").write_text(HELD_OUT)
    values = {
        "model": {
            "name": "gpt",
            "context_length": 16,
            "num_layers": 1,
            "d_model": 16,
            "num_heads": 2,
        },
        "data": {
            "paths": [str(folder / "text.txt")],
            "validation_paths": [str(folder / "held_out.txt")],
        },
        "tokenizer": tokenizer,
        "training": {"max_steps": steps, "eval_steps": steps, "save_steps": steps, **MACHINE},
    }
    return trained(make_recipe(values), folder / tokenizer["kind"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bits")


@pytest.fixture(scope="module")
def words(folder: Path) -> Path:
    """It knows five words: nearly everything that matters is <|unk|>."""
    return run_of(folder, {"kind": "word", "vocab_size": 7}, 30)


@pytest.fixture(scope="module")
def characters(folder: Path) -> Path:
    return run_of(folder, {"kind": "char"}, 250)


def test_validation_and_evaluate_charge_unknown_words_alike(words: Path, folder: Path) -> None:
    found = load(words).evaluate(str(folder / "held_out.txt"))
    unknown = ["cat77", "sees", "zebra28", "dog66", "sees", "yak29"]
    tokenizer = load(words).tokenizer
    expected = [word for word in unknown if tokenizer.encode(word) == [tokenizer.unknown]]
    assert {"cat77", "dog66", "yak29"} <= {*expected}
    assert found.num_bytes == len(HELD_OUT)
    assert found.num_unknown_bytes == 20 * sum(len(word) + 1 for word in expected)
    bits = found.loss * found.num_tokens / math.log(2) + 8 * found.num_unknown_bytes
    assert found.bits_per_byte == pytest.approx(bits / len(HELD_OUT))
    assert best(words)["val_bits_per_byte"] == pytest.approx(found.bits_per_byte, rel=1e-5)
    assert best(words)["val_loss"] == pytest.approx(found.loss, rel=1e-5)


def test_a_model_that_writes_unknown_words_is_not_ranked_first(
    words: Path, characters: Path, folder: Path
) -> None:
    table = compare([words, characters], {"paths": str(folder / "held_out.txt")})
    assert [line.name for line in table.lines] == [str(characters), str(words)]
    unknown, lost = table.notes
    assert unknown.startswith(f"{words}: bits per byte include words that the tokenizer does not")
    assert lost.startswith(f"{words}: bits per byte do not include spacing")
