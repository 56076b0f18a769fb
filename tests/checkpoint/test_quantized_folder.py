"""A model saved with 8-bit weights gives back the same model; a hostile file gives one sentence."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from glassformer.checkpoint.model_folder import WEIGHTS, load_model, save_model
from glassformer.errors import GlassformerError
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn.int8 import QuantizedLinear, is_quantized, quantize
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer

LAYER = "blocks.0.attention.query"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    tokenizer = train_tokenizer("char", ["the quick brown fox"], None)
    sizes = {"num_layers": 2, "d_model": 64, "num_heads": 4, "context_length": 16}
    model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **sizes)).eval()  # type: ignore[arg-type]
    preprocessing = TextPreprocessing(tokenizer=tokenizer)
    save_model(tmp_path / "float32", model, preprocessing)
    quantize(model)
    save_model(tmp_path / "int8", model, preprocessing, "# a card")
    return tmp_path / "int8"


def change(folder: Path, **tensors: torch.Tensor | None) -> None:
    """Replace tensors of a file, or leave them out, without a checksum as other tools would."""
    found: dict[str, torch.Tensor | None] = {**load_file(folder / WEIGHTS)}
    found |= {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    kept = {name: tensor for name, tensor in found.items() if tensor is not None}
    save_file(kept, folder / WEIGHTS)


def test_the_same_model_comes_back_in_a_smaller_file(folder: Path):
    model = load_model(folder).model
    assert is_quantized(model)
    ids = torch.randint(10, (2, 9))
    original = load_model(folder.with_name("float32")).model
    quantize(original)
    with torch.inference_mode():
        torch.testing.assert_close(model(ids), original(ids))
    sizes = [(each / WEIGHTS).stat().st_size for each in (folder, folder.with_name("float32"))]
    assert sizes[0] < sizes[1] / 2
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        assert file.get_tensor(f"{LAYER}.weight").dtype == torch.int8


def test_weights_are_never_copied_to_float32(folder: Path):
    layer = load_model(folder).model.get_submodule(LAYER)
    assert isinstance(layer, QuantizedLinear)
    assert layer.weight.dtype == torch.int8


@pytest.mark.parametrize(
    ("tensors", "problem"),
    [
        ({f"{LAYER}.scale": torch.ones(63)}, r"query.scale has shape \(63,\); .* \(64,\)"),
        ({f"{LAYER}.scale": torch.ones(64, 1)}, r"query.scale has shape \(64, 1\)"),
        ({f"{LAYER}.scale": None}, "query.scale is missing"),
        ({f"{LAYER}.scale": torch.full((64,), torch.nan)}, "query.scale has values that are not"),
        ({f"{LAYER}.scale": torch.full((64,), torch.inf)}, "query.scale has values that are not"),
        ({f"{LAYER}.scale": torch.zeros(64)}, "query.scale has values that are not positive"),
        ({f"{LAYER}.scale": -torch.ones(64)}, "query.scale has values that are not positive"),
        ({f"{LAYER}.weight": torch.ones(64, 64)}, "query.scale is not part of the model"),
        ({f"{LAYER}.weight": torch.ones(8, 64, dtype=torch.int8)}, r"has shape \(8, 64\)"),
        ({f"{LAYER}.weight": None}, "query.weight is missing"),
        (
            {"embedding.weight": torch.ones(19, 64, dtype=torch.int8)},
            "embedding.weight has the type int8, but is not the weight of a layer",
        ),
        ({"other.weight": torch.ones(2, 2, dtype=torch.int8)}, "other.weight has the type int8"),
    ],
)
def test_a_hostile_file_is_refused_in_one_sentence(folder: Path, tensors, problem):
    change(folder, **{name.replace(".", "__"): tensor for name, tensor in tensors.items()})
    with pytest.raises(GlassformerError, match=problem) as caught:
        load_model(folder)
    assert "\n" not in str(caught.value)


def test_damage_is_noticed(folder: Path):
    content = bytearray((folder / WEIGHTS).read_bytes())
    content[-100] ^= 1
    (folder / WEIGHTS).write_bytes(content)
    with pytest.raises(GlassformerError, match="is damaged: it differs from what was saved"):
        load_model(folder)
