import pytest
import torch
from torch import nn

from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.presets import GPT_PRESETS

# The parameters of every preset; with 256 tokens where the data chooses the vocabulary.
SIZES = {
    "nano": 159_504,
    "lecture": 8_271_696,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "modern-xs": 853_376,
    "modern-s": 4_558_848,
    "modern-m": 12_787_072,
    "modern-l": 34_093_056,
}


def built(preset, **options):
    """The model without its memory: only shapes."""
    with torch.device("meta"):
        return GPT(GPTConfig(**{"vocab_size": 256} | GPT_PRESETS[preset] | options))


def size(module):
    return sum(weight.numel() for weight in module.parameters())


def test_every_preset_has_its_size_written_down():
    assert list(SIZES) == list(GPT_PRESETS)


@pytest.mark.parametrize("preset", SIZES)
def test_a_preset_has_exactly_the_size_written_down(preset):
    assert size(built(preset)) == SIZES[preset]


@pytest.mark.parametrize("preset", SIZES)
def test_every_preset_reads_and_predicts(preset):
    model = built(preset, num_layers=1)
    ids = torch.zeros(2, model.context_length, dtype=torch.long, device="meta")
    assert model(ids).shape == (2, model.context_length, model.config.vocab_size)


@pytest.mark.parametrize("preset", [name for name in SIZES if name.startswith("gpt2")])
def test_the_heads_of_every_gpt2_are_64_wide(preset):
    assert GPTConfig(**GPT_PRESETS[preset]).width_of_head == 64


def test_nano_has_heads_as_wide_as_the_model():
    model = built("nano")
    attention = model.blocks[0].attention
    assert (len(model.blocks), attention.num_heads, attention.head_dim) == (3, 3, 48)
    assert attention.output.weight.shape == (48, 3 * 48)  # lecture 2: W^O is hd × d


def test_lecture_has_the_shape_of_lecture_3():
    model = built("lecture")
    assert model.embedding.weight.shape == (512, 128)
    assert model.widen.weight.shape == (144, 128)
    layer = nn.TransformerEncoderLayer(144, nhead=6, batch_first=True, device="meta")
    assert [size(block) for block in model.blocks] == [size(layer)] * 12
    assert model.head.weight.shape == (512, 144)
    assert model.head.bias is not None


def test_modern_presets_share_keys_and_have_no_biases():
    for preset in (name for name in SIZES if name.startswith("modern")):
        model = built(preset)
        assert [name for name, _ in model.named_parameters() if name.endswith("bias")] == []
        attention = model.blocks[0].attention
        assert attention.num_kv_heads < attention.num_heads
        assert attention.query_norm is not None
