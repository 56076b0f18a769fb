"""Swin: stages of attention in windows, with merged patches between them."""

from collections.abc import Iterator, Sequence
from typing import Any

from glassformer.config import Values
from glassformer.formats.family import (
    Family,
    Layout,
    WrongValueError,
    image_labels_from,
    image_labels_to,
    no_gate,
)
from glassformer.formats.links import Link, layer, patches, same

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
NEWER = (
    (r"\.attention\.self\.query$", ".attention.q_proj"),
    (r"\.attention\.self\.key$", ".attention.k_proj"),
    (r"\.attention\.self\.value$", ".attention.v_proj"),
    (r"\.attention\.output\.dense$", ".attention.o_proj"),
    (r"\.intermediate\.dense$", ".mlp.fc1"),
    (r"\.output\.dense$", ".mlp.fc2"),
)

EPSILON = 1e-5  # of the norms that ignore their layer_norm_eps


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
    size = theirs["image_size"]
    sides = (size, size) if isinstance(size, int) else size
    for problem in _uneven(
        sides, theirs["patch_size"], theirs["window_size"], len(theirs["depths"])
    ):
        raise WrongValueError(f"{problem}; such models cannot be imported.")
    return image_labels_from(theirs) | {"window_shift": "both_sides"}


def differs(config: Any) -> Iterator[str]:
    yield from no_gate(config)
    stages = len(config.num_layers)
    yield from _uneven(config.size, config.patch_size, config.window_size, stages)
    if config.window_shift == "each_side":
        yield from _shifted_along_one_side(config)


def _uneven(sides: Sequence[int], patch: int, window: int, stages: int) -> Iterator[str]:
    """A grid that does not consist of whole windows is padded, and only they attend to padding."""
    for stage, grid in enumerate(_grids(sides, patch, stages), 1):
        if any(length % window for length in grid):
            yield f"stage {stage} has a grid of {_shown(grid)}, no multiple of window_size {window}"
            return


def _shifted_along_one_side(config: Any) -> Iterator[str]:
    """Swin does not shift windows along the longer side of a grid that is one window wide."""
    grids = _grids(config.size, config.patch_size, len(config.num_layers))
    for stage, (grid, blocks) in enumerate(zip(grids, config.num_layers, strict=True), 1):
        if blocks > 1 and min(grid) <= config.window_size < max(grid):
            yield (
                f"stage {stage} has a grid of {_shown(grid)}, where window_shift is each_side "
                "instead of both_sides"
            )
            return


def _grids(sides: Sequence[int], patch: int, stages: int) -> list[list[float]]:
    return [[side // patch / 2**stage for side in sides] for stage in range(stages)]


def _shown(grid: Sequence[float]) -> str:
    return "×".join(f"{length:g}" for length in grid)


def more_theirs(config: Any) -> Values:
    depths, heads = list(config.num_layers), list(config.num_heads)
    return image_labels_to(config) | {"depths": depths, "num_heads": heads}


KEYS = {
    "image_size": "image_size",
    "num_channels": "num_channels",
    "patch_size": "patch_size",
    "embed_dim": "d_model",
    "depths": "num_layers",
    "num_heads": "num_heads",
    "window_size": "window_size",
    "mlp_ratio": "mlp_ratio",
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
                "norm_eps": EPSILON,
                "qk_norm": False,
                "bias": True,
                "initialization": "bert",
            },
            theirs={
                "qkv_bias": True,
                "use_absolute_embeddings": False,
                "layer_norm_eps": EPSILON,
            },
            more_ours=more_ours,
            more_theirs=more_theirs,
            differs=differs,
            links=links,
            prefix="swin.",
            computed=(r".*relative_position_index",),
            renames=NEW_NAMES,
            newer=NEWER,
        ),
    ),
)
