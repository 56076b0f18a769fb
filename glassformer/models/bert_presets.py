"""The encoders of the lectures and of the world, as data: for BERT, classifiers and taggers."""

from typing import Any

_BERT: dict[str, Any] = {
    "vocab_size": 30522,
    "context_length": 512,
    "num_segments": 2,
    "dropout": 0.1,
    "attention_dropout": 0.1,
}

_MODERN: dict[str, Any] = {
    "positions": "rotary",
    "norm": "rms",
    "norm_eps": 1e-6,
    "pre_norm": True,
    "embedding_norm": False,
    "final_norm": True,
    "qk_norm": True,
    "activation": "swiglu",
    "bias": False,
    "dropout": 0.1,
    "initialization": "zero_output",
}

ENCODER_PRESETS: dict[str, dict[str, Any]] = {
    # The lecture's encoder: post-norm, learned positions, a norm and dropout on the embeddings.
    "lecture": {
        "context_length": 128,
        "num_layers": 2,
        "d_model": 128,
        "num_heads": 4,
        "dropout": 0.1,
        "attention_dropout": 0.1,
    },
    # The published BERTs, without the pooler: 109,514,298 / 335,174,458 parameters with their head.
    "bert-base": _BERT | {"num_layers": 12, "d_model": 768, "num_heads": 12},
    "bert-large": _BERT | {"num_layers": 24, "d_model": 1024, "num_heads": 16},
    # Today's choices, in sizes for a laptop: the blocks of the GPTs "modern-…", without the mask.
    "xs": _MODERN
    | {
        "context_length": 128,
        "num_layers": 2,
        "d_model": 128,
        "num_heads": 4,
        "d_feedforward": 384,
    },
    "s": _MODERN
    | {
        "context_length": 256,
        "num_layers": 4,
        "d_model": 256,
        "num_heads": 4,
        "d_feedforward": 704,
    },
    "m": _MODERN
    | {
        "context_length": 512,
        "num_layers": 6,
        "d_model": 384,
        "num_heads": 6,
        "d_feedforward": 1024,
    },
}

# From nothing, a classifier learns better without the last norm: it would make a word that was
# seldom seen as loud as all the others.
CLASSIFIER_PRESETS: dict[str, dict[str, Any]] = {
    name: values | ({"final_norm": False, "head_dropout": 0.5} if values.get("pre_norm") else {})
    for name, values in ENCODER_PRESETS.items()
}

# Which preset suits how much text: (at least so many tokens, preset), largest first.
ENCODER_SIZES = ((1e8, "m"), (3e6, "s"), (0, "xs"))
