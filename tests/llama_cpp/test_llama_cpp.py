"""llama.cpp computes the same from every file that is exported, and refuses what is refused here.

`make test-llama` builds it, and runs these tests with GLASSFORMER_LLAMA_CPP, the Python that has
it. Without it they are skipped.
"""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported_models import MODERN, TEXT, a_model, tokenizer

import glassformer
from glassformer.checkpoint.model_folder import load_model
from glassformer.errors import GlassformerError
from glassformer.formats import export_gguf, exporting
from glassformer.formats.gguf import RULES, read_tokenizer, tokenizer_metadata
from glassformer.formats.gguf_file import GGUFFile, write_file
from glassformer.preprocessing.text import TextPreprocessing

PLACE = "GLASSFORMER_LLAMA_CPP"
PYTHON = os.environ.get(PLACE)
PROGRAM = Path(__file__).with_name("answers.py")
TEXTS = (
    "the quick brown fox",
    "It's  2024:\n\n\tnaïve café 中文 🙂 don't 12345 $5.00!?",
    "  a\r\n b   \n\n  c_d-e(f) I'LL x²  ",
    "<|endoftext|> <|im_end|>",
)
SPECIAL = ("<|begin|>", "<|im_end|>")

pytestmark = pytest.mark.skipif(
    PYTHON is None, reason=f"there is no llama.cpp ({PLACE}): run make test-llama"
)


@pytest.fixture(autouse=True)
def _without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes seconds to start, and is asked in other tests."""
    monkeypatch.setattr(exporting, "logits_in_transformers", lambda *each, **more: None)


def asked(file: Path, ids: list[int], texts: tuple[str, ...] = ()) -> Any:
    """What llama.cpp says, and its logits; an error message if it refuses the file."""
    question = json.dumps({"ids": ids, "texts": texts})
    command = [str(PYTHON), str(PROGRAM), str(file), question]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return done.stderr, None
    return json.loads(done.stdout), torch.from_numpy(np.load(file.with_suffix(".npy")))


def drawn(seed: int) -> dict[str, Any]:
    """A random shape of a Llama or a Qwen3."""
    draw = random.Random(seed)
    kv_heads, is_qwen = draw.choice([1, 2, 3]), bool(seed % 2)
    stretches = [None, {"factor": draw.choice([2.0, 3.7])}]
    if not is_qwen:
        low = draw.choice([1.0, 0.5, 2.0])
        stretches.append(
            {
                "factor": draw.choice([2.0, 8.0, 32.0]),
                "original_length": draw.choice([16, 20, 100, 256, 1000, 8191]),
                "low": low,
                "high": low * draw.choice([1.5, 4.0]),
            }
        )
    return MODERN | {
        "num_layers": draw.randint(1, 3),
        "d_model": draw.choice([24, 33, 40]),
        "num_heads": kv_heads * draw.choice([1, 2, 3]),
        "num_kv_heads": kv_heads,
        "head_dim": draw.choice([2, 8, 10, 32]),
        "d_feedforward": draw.choice([None, 7, 64]),
        "context_length": draw.choice([40, 64, 100]),
        "tie_weights": draw.random() < 0.5,
        "qk_norm": is_qwen,
        "bias": not is_qwen and draw.random() < 0.5,
        "norm_eps": draw.choice([1e-5, 1e-2]),
        "rotary_base": draw.choice([10000.0, 123.0]),
        "rotary_stretch": stretches[-1] if draw.random() < 0.5 else draw.choice(stretches),
    }


@pytest.mark.parametrize("seed", range(40))
def test_it_computes_the_same_logits_and_writes_the_same_text(tmp_path: Path, seed: int) -> None:
    preprocessing = TextPreprocessing(tokenizer=tokenizer("bpe"))
    path = a_model(tmp_path / "gpt", "gpt", preprocessing, **drawn(seed))
    found = glassformer.export_model(path, "gguf", tmp_path / "out")
    assert found.differences["glassformer"] <= 1e-6
    model: Any = load_model(path).model
    ids = torch.randint(0, preprocessing.tokenizer.vocab_size, (20,))
    answer, logits = asked(tmp_path / "out/model.gguf", ids.tolist())
    assert logits is not None, answer
    with torch.inference_mode():
        expected = model(ids[None])[0]
        assert (logits - expected).abs().max() <= 1e-5
        assert expected.std() > 0.03
        for token in answer["greedy"]:
            assert token == int(model(ids[None])[0, -1].argmax())
            ids = torch.cat((ids, torch.tensor([token])))


def test_the_random_shapes_have_all_kinds_of_positions() -> None:
    kinds = set()
    for shape in map(drawn, range(40)):
        stretch = shape["rotary_stretch"] or {}
        length = stretch.get("original_length")
        is_power = length is not None and length & (length - 1) == 0
        kinds.add((shape["qk_norm"], bool(stretch), length is not None, is_power))
    assert len(kinds) == 6  # Llama: none, linear, llama3 twice; Qwen3: none, linear


@pytest.mark.parametrize(("dtype", "most"), [("F16", 0.01), ("Q8_0", 0.05)])
def test_smaller_types_differ_by_their_rounding(tmp_path: Path, dtype: str, most: float) -> None:
    config = MODERN | {"num_kv_heads": 2, "head_dim": 16, "tie_weights": False}
    preprocessing = TextPreprocessing(tokenizer=tokenizer("bpe"))
    path = a_model(tmp_path / "gpt", "gpt", preprocessing, **config)
    glassformer.export_model(path, "gguf", tmp_path / "out", dtype=dtype)
    ids = torch.randint(0, preprocessing.tokenizer.vocab_size, (20,))
    answer, logits = asked(tmp_path / "out/model.gguf", ids.tolist())
    assert logits is not None, answer
    again: Any = glassformer.load(tmp_path / "out/model.gguf")
    with torch.inference_mode():  # llama.cpp rounds activations to the same type
        assert (logits - again.model(ids[None])[0]).abs().max() <= most


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "default"])
@pytest.mark.parametrize("begins", [False, True])
def test_it_reads_texts_as_the_same_tokens(tmp_path: Path, rule: str, begins: bool) -> None:
    trained = tokenizer("bpe", *SPECIAL)
    metadata = tokenizer_metadata(trained, trained.vocab_size) | {"tokenizer.ggml.pre": rule}
    metadata["tokenizer.ggml.bos_token_id"] = trained.special_tokens["<|begin|>"]
    metadata["tokenizer.ggml.add_bos_token"] = begins
    reader = read_tokenizer(metadata, "")
    preprocessing = TextPreprocessing(
        tokenizer=reader, end_tokens=("<|im_end|>",), begin_token="<|begin|>"
    )
    path = a_model(tmp_path / "gpt", "gpt", preprocessing, **MODERN)
    glassformer.export_model(path, "gguf", tmp_path / "out")
    answer, _ = asked(tmp_path / "out/model.gguf", [1], (*TEXTS, *TEXT[:2]))
    frame = (*reader.begins_with,)
    assert bool(frame) == begins
    assert answer["tokens"] == [[*frame, *reader.encode(text)] for text in (*TEXTS, *TEXT[:2])]
    assert answer["begin"] == reader.special_tokens["<|begin|>"]
    assert sorted(answer["ends"]) == sorted(preprocessing.ends)


def test_the_begin_of_a_text_is_added_if_the_file_does_not_say(tmp_path: Path) -> None:
    """Only Llama 3's rule has it so, in llama.cpp and here."""
    path = a_model(tmp_path / "gpt", "gpt", TextPreprocessing(tokenizer=tokenizer("bpe")), **MODERN)
    glassformer.export_model(path, "gguf", tmp_path / "out")
    file = GGUFFile(tmp_path / "out/model.gguf")
    tensors = {name: (tensor.numpy(), "F32") for name, tensor in file.read([*file.tensors])}
    for rule in RULES:
        metadata = file.metadata | {"tokenizer.ggml.pre": rule}
        del metadata["tokenizer.ggml.add_bos_token"]
        write_file(tmp_path / f"{rule}.gguf", metadata, tensors)
        answer, _ = asked(tmp_path / f"{rule}.gguf", [1], ("the",))
        ours: Any = glassformer.load(tmp_path / f"{rule}.gguf")
        read = [*ours.tokenizer.begins_with, *ours.tokenizer.encode("the")]
        assert answer["tokens"] == [read]
        assert bool(ours.tokenizer.begins_with) == (rule == "llama-bpe")


@pytest.mark.parametrize(
    ("config", "ours", "theirs"),
    [
        (
            {"qk_norm": True, "rotary_stretch": {"factor": 8.0, "original_length": 256}},
            "llama.cpp reads only in models without qk_norm",
            "wrong number of tensors",
        ),
        (
            {"num_layers": 513, "d_model": 4, "num_heads": 1},
            "llama.cpp reads at most 512",
            "LLAMA_MAX_LAYERS",
        ),
    ],
)
def test_what_is_refused_it_refuses_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Any, ours: str, theirs: str
) -> None:
    preprocessing = TextPreprocessing(tokenizer=tokenizer("bpe"))
    path = a_model(tmp_path / "gpt", "gpt", preprocessing, **MODERN | config)
    with pytest.raises(GlassformerError, match=ours):
        glassformer.export_model(path, "gguf", tmp_path / "out")
    monkeypatch.setattr(export_gguf, "_differs", lambda config: ())
    glassformer.export_model(path, "gguf", tmp_path / "out")
    message, logits = asked(tmp_path / "out/model.gguf", [1])
    assert logits is None
    assert theirs in message
