"""The values in a config.json of others: of which type each must be that families compute with.

The others are passed on, and our own config checks them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from glassformer.config import Values
from glassformer.errors import GlassformerError
from glassformer.wording import shortened


@dataclass(frozen=True)
class Kind:
    """What a value can be."""

    name: str
    types: tuple[type, ...]
    least: float = -inf
    items: type = object
    """The type of the items of a list."""

    def allows(self, value: Any) -> bool:
        if isinstance(value, bool):  # to Python, true is a number as well
            return bool in self.types
        if isinstance(value, list) and not all(isinstance(each, self.items) for each in value):
            return False
        is_small = isinstance(value, int | float) and value < self.least
        return isinstance(value, self.types) and not is_small


COUNT = Kind("a whole number of at least 1", (int,), least=1)
FROM_0 = Kind("a whole number of at least 0", (int,), least=0)
WHOLE = Kind("a whole number", (int,))
NUMBER = Kind("a number", (int, float))
TEXT = Kind("text", (str,))
FLAG = Kind("true or false", (bool,))
LIST = Kind("a list", (list,))
TABLE = Kind("an object", (dict,))
SIZE = Kind("a whole number or a list of two", (int, list), least=1, items=int)
LARGEST = 2**53  # beyond it, JSON readers disagree about whole numbers

_COUNTS = """hidden_size num_attention_heads max_position_embeddings vocab_size n_embd n_positions
    window_size patch_size num_channels encoder_layers"""
TYPES = {
    **dict.fromkeys(_COUNTS.split(), COUNT),
    **dict.fromkeys(("hidden_act", "activation", "activation_function"), TEXT),
    "type_vocab_size": FROM_0,
    "tie_word_embeddings": FLAG,
    "depths": LIST,
    "image_size": SIZE,
}
_OPTIONAL_COUNTS = """head_dim num_key_value_heads n_inner decoder_vocab_size num_labels
    decoder_start_token_id"""
_OPTIONAL_FLAGS = "attention_bias mlp_bias share_encoder_decoder_embeddings"
OPTIONAL = {  # or null
    **dict.fromkeys(_OPTIONAL_COUNTS.split(), FROM_0),
    **dict.fromkeys(_OPTIONAL_FLAGS.split(), FLAG),
    **dict.fromkeys(("rope_theta", "partial_rotary_factor", "classifier_dropout"), NUMBER),
    **dict.fromkeys(("rope_parameters", "rope_scaling", "id2label", "quantization_config"), TABLE),
    **dict.fromkeys(("architectures", "layer_types"), LIST),
    "pad_token_id": WHOLE,  # -1 means none
    "problem_type": TEXT,
}
ROTARY = dict.fromkeys(("factor", "low_freq_factor", "high_freq_factor"), NUMBER)
ROTARY |= {"original_max_position_embeddings": COUNT}
OPTIONAL_ROTARY = {"rope_type": TEXT, "type": TEXT}
OPTIONAL_ROTARY |= dict.fromkeys(("rope_theta", "partial_rotary_factor"), NUMBER)

# Keys of ours that are computed from keys of theirs.
MADE_FROM = {
    "context_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "tie_weights": "tie_word_embeddings",
    "head_dropout": "classifier_dropout",
    "d_feedforward": "n_inner",
    "labels": "id2label",
    "num_kv_heads": "num_key_value_heads",
    "num_encoder_layers": "encoder_layers",
    "target_vocab_size": "decoder_vocab_size",
    "rotary_base": "rope_theta",
    "rotary_stretch.factor": "factor",
    "rotary_stretch.low": "low_freq_factor",
    "rotary_stretch.high": "high_freq_factor",
    "rotary_stretch.original_length": "original_max_position_embeddings",
}


class WrongValueError(GlassformerError):
    """What is wrong in a config of theirs; whoever knows the file puts its name before it."""


def check_types(theirs: Values) -> None:
    """Raise `WrongValueError` if a value is of a type that cannot be computed with."""
    _check(theirs, TYPES, OPTIONAL)
    for key in ("rope_parameters", "rope_scaling"):
        _check(theirs.get(key) or {}, ROTARY, OPTIONAL_ROTARY, f"{key}.")


def _check(
    values: Values, needed: Mapping[str, Kind], optional: Mapping[str, Kind], prefix: str = ""
) -> None:
    for key, kind in {**needed, **optional}.items():
        value = values.get(key)
        if key not in values or (value is None and key in optional):
            continue
        if not kind.allows(value):
            shown = shortened(json.dumps(value), 60)
            raise WrongValueError(f"{prefix}{key} is {shown}, not {kind.name}. Copy it again.")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise WrongValueError(f"{prefix}{key} is far too large. Copy it again.")
