"""ViT: patches, a class token, a pre-norm encoder, a linear head."""

from collections.abc import Iterator
from typing import Any

from glassformer.formats.family import Family, Layout, image_labels_from, image_labels_to, no_gate
from glassformer.formats.links import Link, layer, patches, unsqueezed

PARTS = {
    "attention.query": "attention.attention.query",
    "attention.key": "attention.attention.key",
    "attention.value": "attention.attention.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "layernorm_before",
    "feedforward_norm": "layernorm_after",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
}
# What newer releases of transformers call the same tensors.
NEW_NAMES = (
    (
        r"^vit\.layers\.(\d+)\.attention\.q_proj\.",
        r"vit.encoder.layer.\1.attention.attention.query.",
    ),
    (r"^vit\.layers\.(\d+)\.attention\.k_proj\.", r"vit.encoder.layer.\1.attention.attention.key."),
    (
        r"^vit\.layers\.(\d+)\.attention\.v_proj\.",
        r"vit.encoder.layer.\1.attention.attention.value.",
    ),
    (r"^vit\.layers\.(\d+)\.attention\.o_proj\.", r"vit.encoder.layer.\1.attention.output.dense."),
    (r"^vit\.layers\.(\d+)\.mlp\.fc1\.", r"vit.encoder.layer.\1.intermediate.dense."),
    (r"^vit\.layers\.(\d+)\.mlp\.fc2\.", r"vit.encoder.layer.\1.output.dense."),
    (r"^vit\.layers\.", "vit.encoder.layer."),
)
_BLOCK = r"^vit\.encoder\.layer\.(\d+)\."
NEWER = (
    (_BLOCK + r"attention\.attention\.query$", r"vit.layers.\1.attention.q_proj"),
    (_BLOCK + r"attention\.attention\.key$", r"vit.layers.\1.attention.k_proj"),
    (_BLOCK + r"attention\.attention\.value$", r"vit.layers.\1.attention.v_proj"),
    (_BLOCK + r"attention\.output\.dense$", r"vit.layers.\1.attention.o_proj"),
    (_BLOCK + r"intermediate\.dense$", r"vit.layers.\1.mlp.fc1"),
    (_BLOCK + r"output\.dense$", r"vit.layers.\1.mlp.fc2"),
)


def links(config: Any) -> Iterator[Link]:
    yield unsqueezed("encoder.class_token", "vit.embeddings.cls_token", 2)
    yield unsqueezed("encoder.positions.table.weight", "vit.embeddings.position_embeddings", 1)
    projection = "vit.embeddings.patch_embeddings.projection"
    yield from patches(
        "encoder.embedding.projection", projection, config.channels, config.patch_size
    )
    for number in range(config.num_layers):
        for ours, theirs in PARTS.items():
            yield from layer(
                f"encoder.blocks.{number}.{ours}", f"vit.encoder.layer.{number}.{theirs}"
            )
    yield from layer("encoder.final_norm", "vit.layernorm")
    yield from layer("head", "classifier")


KEYS = {
    "image_size": "image_size",
    "num_channels": "num_channels",
    "patch_size": "patch_size",
    "hidden_size": "d_model",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "d_feedforward",
    "layer_norm_eps": "norm_eps",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
DEFAULTS = {
    "image_size": 224,
    "num_channels": 3,
    "patch_size": 16,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
OURS = {
    "embedding": "patches",
    "positions": "learned",
    "norm": "layer",
    "pre_norm": True,
    "final_norm": True,
    "qk_norm": False,
    "bias": True,
    "pooling": "class",
    "initialization": "bert",
}

FAMILY = Family(
    "vit",
    (
        Layout(
            architecture="ViTForImageClassification",
            model="vit",
            inputs="image",
            keys=KEYS,
            defaults=DEFAULTS,
            ours=OURS,
            theirs={"qkv_bias": True},
            more_ours=image_labels_from,
            more_theirs=image_labels_to,
            differs=no_gate,
            links=links,
            prefix="vit.",
            left_out=(r"vit\.pooler\.dense\.\w+",),
            renames=NEW_NAMES,
            newer=NEWER,
        ),
    ),
)
