"""Swin: stages of attention in windows, with merged patches between them."""

from collections.abc import Iterator
from typing import Any

from glassformer.pretrained.family import (
    Family,
    Layout,
    Values,
    labels_from,
    labels_to,
    no_gate,
    our_activation,
    their_activation,
)
from glassformer.pretrained.links import Link, layer, patches, same

PARTS = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "layernorm_before",
    "feedforward_norm": "layernorm_after",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
}
BIAS = "attention.self.relative_position_bias_table"
# What newer releases of transformers call the same tensors.
NEW_NAMES = (
    (r"\.attention\.q_proj\.", ".attention.self.query."),
    (r"\.attention\.k_proj\.", ".attention.self.key."),
    (r"\.attention\.v_proj\.", ".attention.self.value."),
    (r"\.attention\.o_proj\.", ".attention.output.dense."),
    (r"\.attention\.relative_position_bias\.relative", ".attention.self.relative"),
    (r"\.mlp\.fc1\.", ".intermediate.dense."),
    (r"\.mlp\.fc2\.", ".output.dense."),
)


def links(config: Any) -> Iterator[Link]:
    projection = "swin.embeddings.patch_embeddings.projection"
    yield from patches(
        "encoder.embedding.projection", projection, config.channels, config.patch_size
    )
    yield from layer("encoder.embedding_norm", "swin.embeddings.norm")
    for stage, number in enumerate(config.num_layers):
        for block in range(number):
            mine, its = f"encoder.stages.{stage}.{block}", f"swin.encoder.layers.{stage}"
            for ours, theirs in PARTS.items():
                yield from layer(f"{mine}.{ours}", f"{its}.blocks.{block}.{theirs}")
            yield same(f"{mine}.attention.bias.table", f"{its}.blocks.{block}.{BIAS}")
    for stage in range(len(config.num_layers) - 1):
        mine, its = f"encoder.merging.{stage}", f"swin.encoder.layers.{stage}.downsample"
        yield from layer(f"{mine}.norm", f"{its}.norm")
        yield same(f"{mine}.reduction.weight", f"{its}.reduction.weight")
    yield from layer("encoder.final_norm", "swin.layernorm")
    yield from layer("head", "classifier")


def more_ours(theirs: Values) -> Values:
    return labels_from(theirs) | {
        "activation": our_activation(theirs["hidden_act"]),
        "head_dropout": 0.0,
    }


def more_theirs(config: Any) -> Values:
    height, width = config.size
    return labels_to(config) | {
        "hidden_act": their_activation(config.activation),
        "image_size": height if height == width else [height, width],
        "depths": list(config.num_layers),
        "num_heads": list(config.num_heads),
    }


KEYS = {
    "image_size": "image_size",
    "num_channels": "num_channels",
    "patch_size": "patch_size",
    "embed_dim": "d_model",
    "depths": "num_layers",
    "num_heads": "num_heads",
    "window_size": "window_size",
    "mlp_ratio": "mlp_ratio",
    "layer_norm_eps": "norm_eps",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
DEFAULTS = {
    "image_size": 224,
    "num_channels": 3,
    "patch_size": 4,
    "window_size": 7,
    "mlp_ratio": 4.0,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}

FAMILY = Family(
    "swin",
    (
        Layout(
            architecture="SwinForImageClassification",
            model="multiscale-vit",
            inputs="image",
            keys=KEYS,
            defaults=DEFAULTS,
            ours={
                "embedding": "patches",
                "norm": "layer",
                "qk_norm": False,
                "bias": True,
                "initialization": "bert",
            },
            theirs={"qkv_bias": True, "use_absolute_embeddings": False},
            more_ours=more_ours,
            more_theirs=more_theirs,
            differs=no_gate,
            links=links,
            prefix="swin.",
            computed=(r".*relative_position_index",),
            renames=NEW_NAMES,
        ),
    ),
)
