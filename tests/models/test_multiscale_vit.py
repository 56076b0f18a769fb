"""The multi-scale ViT is Swin; attention in windows is cheap and keeps to its windows."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from transformers import SwinConfig, SwinForImageClassification

from glassformer.config import parse
from glassformer.errors import GlassformerError
from glassformer.models import MODELS
from glassformer.models.multiscale_vit import MultiscaleViT, MultiscaleViTConfig

TINY = {"image_size": 32, "num_channels": 3, "patch_size": 2, "num_layers": (2, 2)}
TINY |= {"d_model": 16, "num_heads": (2, 4), "window_size": 4, "labels": ("a", "b", "c")}
NAMES = {
    "swin.embeddings.patch_embeddings.projection": "encoder.embedding.projection",
    "swin.embeddings.norm": "encoder.embedding_norm",
    "swin.encoder.layers.": "encoder.stages.",
    "blocks.": "",
    "attention.q_proj": "attention.query",
    "attention.k_proj": "attention.key",
    "attention.v_proj": "attention.value",
    "attention.o_proj": "attention.output",
    "attention.relative_position_bias.relative_position_bias_table": "attention.bias.table",
    "layernorm_before": "attention_norm",
    "layernorm_after": "feedforward_norm",
    "mlp.fc1": "feedforward.up",
    "mlp.fc2": "feedforward.down",
    "swin.layernorm": "encoder.final_norm",
    "classifier": "head",
}


def renamed(weights, ours):
    found = {}
    for name, weight in weights.items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        if "downsample" in name:
            stage, rest = name.removeprefix("encoder.stages.").split(".downsample.")
            name = f"encoder.merging.{stage}.{rest}"
        found[name] = weight.reshape(ours[name].shape)
    return found


def test_it_gives_the_logits_of_transformers_swin():
    config = SwinConfig(
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        image_size=32,
        patch_size=2,
        num_labels=3,
    )
    torch.manual_seed(0)
    theirs = SwinForImageClassification(config).eval()
    for weight in theirs.parameters():
        nn.init.normal_(weight, std=0.2)
    ours = MultiscaleViT(MultiscaleViTConfig(**TINY)).eval()
    found = ours.load_state_dict(renamed(theirs.state_dict(), ours.state_dict()), strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["temperature"], [])
    pixels = torch.randn(4, 3, 32, 32)
    expected = theirs(pixels).logits
    assert expected.std() > 0.1  # not a comparison of nothing with nothing
    assert (ours(pixels) - expected).abs().max() < 1e-4


def test_swin_t_has_the_published_number_of_parameters():
    labels = tuple(map(str, range(1000)))
    with torch.device("meta"):
        model = MultiscaleViT(
            MultiscaleViTConfig(labels=labels, **MODELS["multiscale-vit"].presets["swin-t"])
        )
    assert sum(weight.numel() for weight in model.parameters()) == 28_288_354
    assert model.encoder.grids == ((56, 56), (28, 28), (14, 14), (7, 7))


def flops(model, height, width):
    with FlopCounterMode(display=False) as counter, torch.device("meta"):
        model(torch.empty(1, 3, height, width))
    return counter.get_total_flops()


def test_the_cost_of_windows_grows_with_the_area_and_not_with_its_square():
    with torch.device("meta"):
        windows = MultiscaleViT(MultiscaleViTConfig(**TINY))
        whole = MultiscaleViT(MultiscaleViTConfig(**TINY | {"window_size": 256}))
    head = 2 * 32 * 3
    areas = [(32, 32), (64, 32), (64, 64), (128, 128)]
    per_pixel = [(flops(windows, *size) - head) / (size[0] * size[1]) for size in areas]
    assert max(per_pixel) / min(per_pixel) == pytest.approx(1)
    assert flops(whole, 128, 128) > 2 * 16 * flops(whole, 32, 32)


@pytest.mark.parametrize("size", [(2, 2), (6, 34), (30, 22), (36, 36)])
def test_images_of_any_multiple_of_the_patch_are_read(size):
    model = MultiscaleViT(MultiscaleViTConfig(**TINY | {"image_size": size}))
    assert model(torch.randn(2, 3, *size)).isfinite().all()


@pytest.mark.parametrize("embedding", ["patches", "convolution"])
def test_it_learns_a_batch_by_heart(embedding):
    torch.manual_seed(0)
    options = {"image_size": 20, "embedding": embedding, "head_dropout": 0.0}
    model = MultiscaleViT(MultiscaleViTConfig(**TINY | options))
    pixels, targets = torch.randn(12, 3, 20, 20), torch.arange(12) % 3
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        loss = F.cross_entropy(model(pixels), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.05
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"num_heads": (2,)}, "num_layers has 2 stages and num_heads 1"),
        ({"num_heads": (2, 5)}, "a stage of width 32 cannot have 5 heads"),
        ({"image_size": 31}, "instead of 31, use 30 or 32"),
    ],
)
def test_a_config_that_does_not_fit_says_what_does(values, problem):
    with pytest.raises(GlassformerError, match=problem):
        parse(MultiscaleViTConfig, TINY | values)
