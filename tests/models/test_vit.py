"""ViT as it was published, and what differs from it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import ViTConfig as TheirConfig
from transformers import ViTForImageClassification

from glassformer.config import parse
from glassformer.errors import GlassformerError
from glassformer.models import MODELS
from glassformer.models.vit import ViT, ViTConfig, ViTEncoder, ViTEncoderConfig
from glassformer.nn.observe import listening
from glassformer.nn.patches import PatchEmbedding, patches

TINY = {"image_size": (16, 24), "num_channels": 3, "patch_size": 4, "num_layers": 2}
TINY |= {"d_model": 32, "num_heads": 4, "d_feedforward": 64, "labels": ("a", "b", "c")}
NAMES = {
    "vit.embeddings.patch_embeddings.projection": "encoder.embedding.projection",
    "vit.embeddings.cls_token": "encoder.class_token",
    "vit.embeddings.position_embeddings": "encoder.positions.table.weight",
    "vit.layers.": "encoder.blocks.",
    "attention.q_proj": "attention.query",
    "attention.k_proj": "attention.key",
    "attention.v_proj": "attention.value",
    "attention.o_proj": "attention.output",
    "layernorm_before": "attention_norm",
    "layernorm_after": "feedforward_norm",
    "mlp.fc1": "feedforward.up",
    "mlp.fc2": "feedforward.down",
    "vit.layernorm": "encoder.final_norm",
    "classifier": "head",
}


def with_random_weights(model):
    torch.manual_seed(0)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.2)
    return model.eval()


def renamed(weights, ours):
    found = {}
    for name, weight in weights.items():
        for old, new in NAMES.items():
            name = name.replace(old, new)
        found[name] = weight.reshape(ours[name].shape)
    return found


def the_same(image_size=(16, 24)):
    """A small ViT of transformers, and ours with its weights."""
    config = TheirConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=image_size,
        patch_size=4,
        num_labels=3,
        layer_norm_eps=1e-6,
    )
    theirs = with_random_weights(ViTForImageClassification(config))
    ours = ViT(ViTConfig(**TINY | {"image_size": image_size})).eval()
    found = ours.load_state_dict(renamed(theirs.state_dict(), ours.state_dict()), strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["temperature"], [])
    return ours, theirs


def test_it_gives_the_logits_of_transformers():
    ours, theirs = the_same()
    pixels = torch.randn(5, 3, 16, 24)
    expected = theirs(pixels).logits
    assert expected.std() > 0.1  # not a comparison of nothing with nothing
    assert (ours(pixels) - expected).abs().max() < 1e-4


@pytest.mark.parametrize("size", [(32, 48), (20, 12), (16, 40)])
def test_other_sizes_get_the_interpolated_positions_of_transformers(size):
    ours, theirs = the_same((16, 16))  # theirs knows no other trained grids than square ones
    pixels = torch.randn(3, 3, *size)
    expected = theirs(pixels, interpolate_pos_encoding=True).logits
    assert (ours(pixels) - expected).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("preset", "number"),
    [
        ("vit-ti-16", 5_717_416),
        ("vit-s-16", 22_050_664),
        ("vit-b-16", 86_567_656),
        ("vit-l-16", 304_326_632),
    ],
)
def test_the_published_presets_have_the_published_number_of_parameters(preset, number):
    labels = tuple(map(str, range(1000)))
    with torch.device("meta"):
        model = ViT(ViTConfig(labels=labels, **MODELS["vit"].presets[preset]))
    assert sum(weight.numel() for weight in model.parameters()) == number


def test_patches_are_squares_in_raster_order():
    pixels = torch.arange(2 * 4 * 6).view(1, 2, 4, 6)
    found = patches(pixels, 2)
    assert found.shape == (1, 6, 8)
    assert found[0, 4].view(2, 2, 2).equal(pixels[0, :, 2:4, 2:4])  # second row, second column


def test_an_embedding_of_patches_is_a_convolution_with_the_stride_of_a_patch():
    embedding, pixels = PatchEmbedding(3, 4, 8), torch.randn(2, 3, 8, 12)
    kernel = embedding.projection.weight.view(8, 3, 4, 4)
    expected = F.conv2d(pixels, kernel, embedding.projection.bias, stride=4)
    torch.testing.assert_close(embedding(pixels), expected.flatten(2).transpose(1, 2))


@pytest.mark.parametrize("positions", ["none", "learned"])
@pytest.mark.parametrize("pooling", ["class", "mean", "sequence"])
def test_only_positions_tell_patches_in_another_order_apart(positions, pooling, shaken):
    model = shaken(ViT(ViTConfig(**TINY, positions=positions, pooling=pooling)))
    squares = torch.randn(1, 24, 3, 4, 4)

    def image(order):
        rows = squares[:, order].unflatten(1, (4, 6))  # (1, 4, 6, 3, P, P)
        return rows.permute(0, 3, 1, 4, 2, 5).reshape(1, 3, 16, 24)

    found, shuffled = model(image(torch.arange(24))), model(image(torch.randperm(24)))
    assert torch.allclose(found, shuffled, atol=1e-4) == (positions == "none")


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (9, 31)])
def test_convolutions_embed_images_of_any_size(size):
    config = ViTConfig(**TINY | {"image_size": size, "embedding": "convolution"})
    model = ViT(config)
    rows, columns = model.encoder.grid
    assert (rows, columns) == (-(-size[0] // 4), -(-size[1] // 4))
    assert model.encoder(torch.randn(2, 3, *size)).shape == (2, 1 + rows * columns, 32)


def test_the_encoder_alone_has_one_state_per_patch():
    values = {key: value for key, value in TINY.items() if key != "labels"}
    encoder = ViTEncoder(ViTEncoderConfig(**values))
    assert encoder.grid == (4, 6)
    assert encoder(torch.randn(2, 3, 16, 24)).shape == (2, 24, 32)


def test_the_weights_of_sequence_pooling_can_be_observed(shaken):
    model = shaken(ViT(ViTConfig(**TINY, pooling="sequence")))
    with listening([model.pooler.tap]) as [heard]:
        model(torch.randn(2, 3, 16, 24))
    assert heard[0].shape == (2, 24)
    torch.testing.assert_close(heard[0].sum(1), torch.ones(2))


@pytest.mark.parametrize("embedding", ["patches", "convolution"])
@pytest.mark.parametrize("pooling", ["class", "mean", "sequence"])
def test_it_learns_a_batch_by_heart(embedding, pooling):
    torch.manual_seed(0)
    options = {"embedding": embedding, "pooling": pooling, "head_dropout": 0.0}
    model = ViT(ViTConfig(**TINY | options))
    pixels, targets = torch.randn(12, 3, 16, 24), torch.arange(12) % 3
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(100):
        loss = F.cross_entropy(model(pixels), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    assert loss < 0.05


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"image_size": (16, 30)}, "image_size 16×30 is not a multiple of patch_size 4"),
        ({"image_size": (16, 30)}, "instead of 30, use 28 or 32"),
        ({"image_size": 3}, "instead of 3, use 4"),
        ({"embedding": "convolution", "patch_size": 6}, "not a power of two"),
        ({"image_size": (16, 16, 16)}, "image_size"),
        ({"num_heads": 5}, "d_model 32 is not a multiple of num_heads 5"),
    ],
)
def test_a_config_that_does_not_fit_says_what_does(values, problem):
    with pytest.raises(GlassformerError, match=problem):
        parse(ViTConfig, TINY | values)


def test_images_with_other_channels_are_refused():
    with pytest.raises(GlassformerError, match=r"the model reads \(batch, 3, height, width\)"):
        ViT(ViTConfig(**TINY))(torch.randn(2, 1, 16, 24))
