"""ImageGPT: GPT-2 over the colours of a palette, with RMS norms and another GELU."""

from collections.abc import Iterator
from math import isqrt
from typing import Any

from glassformer.config import Values
from glassformer.formats.families import gpt2
from glassformer.formats.family import Family, Layout, WrongValueError


def more_ours(theirs: Values) -> Values:
    side = isqrt(theirs["n_positions"])
    if side * side != theirs["n_positions"]:
        raise WrongValueError(
            f"n_positions is {theirs['n_positions']}, but the pixels of a square image are needed."
        )
    return gpt2.more_ours(theirs) | {"image_size": side}


def differs(config: Any) -> Iterator[str]:
    yield from gpt2.differs(config)
    height, width = config.size
    if height != width:
        yield f"images are {height}×{width} instead of square"


KEYS = {key: ours for key, ours in gpt2.KEYS.items() if key != "tie_word_embeddings"}
DEFAULTS = gpt2.DEFAULTS | {"vocab_size": 513, "n_embd": 512, "n_layer": 24, "n_head": 8}
DEFAULTS |= {"activation_function": "quick_gelu", "tie_word_embeddings": False}
THEIRS = {key: value for key, value in gpt2.THEIRS.items() if key != "add_cross_attention"}

FAMILY = Family(
    "imagegpt",
    (
        Layout(
            architecture="ImageGPTForCausalImageModeling",
            model="image-gpt",
            inputs="palette",
            keys=KEYS,
            defaults=DEFAULTS,
            ours=gpt2.COMMON | {"norm": "rms", "tie_weights": False, "initialization": "gpt2"},
            theirs=THEIRS | {"tie_word_embeddings": False},
            more_ours=more_ours,
            more_theirs=gpt2.more_theirs,
            differs=differs,
            links=gpt2.links,
            prefix="transformer.",
            computed=(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",),
        ),
    ),
)
