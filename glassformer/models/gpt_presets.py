"""The GPTs of the lectures and of the world, as data."""

from typing import Any

_GPT2: dict[str, Any] = {"vocab_size": 50257, "context_length": 1024, "dropout": 0.1}

_MODERN: dict[str, Any] = {
    "positions": "rotary",
    "norm": "rms",
    "norm_eps": 1e-6,
    "qk_norm": True,
    "activation": "swiglu",
    "bias": False,
    "tie_weights": False,
    "initialization": "zero_output",
}

GPT_PRESETS: dict[str, dict[str, Any]] = {
    # Lecture 2's assignment: small enough to print. Every head has the full width of the model.
    "nano": {
        "num_layers": 3,
        "num_heads": 3,
        "d_model": 48,
        "head_dim": 48,
        "context_length": 128,
    },
    # Lecture 3's model, corrected (see docs/errata.md): post-norm, sinusoidal positions, torch's
    # defaults, no final norm, untied output. Not the published GPT-2: that one is below.
    "lecture": {
        "vocab_size": 512,
        "context_length": 256,
        "num_layers": 12,
        "num_heads": 6,
        "d_embedding": 128,
        "d_model": 144,
        "d_feedforward": 2048,
        "positions": "sinusoidal",
        "activation": "relu",
        "pre_norm": False,
        "final_norm": False,
        "tie_weights": False,
        "output_bias": True,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "feedforward_dropout": 0.1,
        "initialization": "torch",
    },
    # The four published GPT-2s: 124,439,808 / 354,823,168 / 774,030,080 / 1,557,611,200 parameters.
    "gpt2": _GPT2 | {"num_layers": 12, "num_heads": 12, "d_model": 768},
    "gpt2-medium": _GPT2 | {"num_layers": 24, "num_heads": 16, "d_model": 1024},
    "gpt2-large": _GPT2 | {"num_layers": 36, "num_heads": 20, "d_model": 1280},
    "gpt2-xl": _GPT2 | {"num_layers": 48, "num_heads": 25, "d_model": 1600},
    # Today's choices, in sizes for a laptop. The layout is Qwen3's. The head has its own weights:
    # small models learn faster so, and it costs no time (docs/training.md).
    "modern-xs": _MODERN
    | {
        "num_layers": 4,
        "d_model": 128,
        "num_heads": 4,
        "num_kv_heads": 2,
        "d_feedforward": 384,
        "context_length": 128,
    },
    "modern-s": _MODERN
    | {
        "num_layers": 6,
        "d_model": 256,
        "num_heads": 4,
        "num_kv_heads": 2,
        "d_feedforward": 704,
        "context_length": 256,
    },
    "modern-m": _MODERN
    | {
        "num_layers": 8,
        "d_model": 384,
        "num_heads": 6,
        "num_kv_heads": 2,
        "d_feedforward": 1024,
        "context_length": 512,
    },
    "modern-l": _MODERN
    | {
        "num_layers": 12,
        "d_model": 512,
        "num_heads": 8,
        "num_kv_heads": 2,
        "d_feedforward": 1408,
        "context_length": 512,
    },
}

# Which preset suits how much text: (at least so many tokens, preset), largest first.
GPT_SIZES = ((1e9, "modern-l"), (1e8, "modern-m"), (3e6, "modern-s"), (0, "modern-xs"))
