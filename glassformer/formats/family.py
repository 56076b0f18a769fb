"""A family: how a kind of model that others publish and one of our models correspond.

    their config.json   ↔   our config        keys, more_ours, more_theirs
    their tensors       ↔   our tensors       links

A `Layout` is this pair of pure maps, written once and used both ways: to read a model and to write
one. A family has a layout for each of its heads.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from glassformer.config import Config, Origins, Values, parse
from glassformer.errors import GlassformerError
from glassformer.formats.links import Link
from glassformer.models import row
from glassformer.models.stack import StackConfig
from glassformer.wording import shortened

# --- their config: of which type the values must be that families compute with ---
#
# The others are passed on, and our own config checks them.


@dataclass(frozen=True)
class ValueType:
    """What a value can be."""

    name: str
    types: tuple[type, ...]
    least: float = -inf
    items: type = object
    """The type of the items of a list."""

    def allows(self, value: Any) -> bool:
        if isinstance(value, bool):  # to Python, true is a number as well
            return bool in self.types
        if isinstance(value, list) and not all(isinstance(item, self.items) for item in value):
            return False
        is_small = isinstance(value, int | float) and value < self.least
        return isinstance(value, self.types) and not is_small


COUNT = ValueType("a whole number of at least 1", (int,), least=1)
FROM_0 = ValueType("a whole number of at least 0", (int,), least=0)
WHOLE = ValueType("a whole number", (int,))
NUMBER = ValueType("a number", (int, float))
TEXT = ValueType("text", (str,))
FLAG = ValueType("true or false", (bool,))
LIST = ValueType("a list", (list,))
TABLE = ValueType("an object", (dict,))
SIZE = ValueType("a whole number or a list of two", (int, list), least=1, items=int)
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
    values: Values,
    needed: Mapping[str, ValueType],
    optional: Mapping[str, ValueType],
    prefix: str = "",
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


# --- layouts and families ---

Inputs = Literal["text", "labelled text", "masked text", "pair", "image", "palette"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One architecture of theirs, and the model of ours that computes the same."""

    architecture: str
    """The name of their class, in their config.json."""
    model: str
    """The name of ours."""
    inputs: Inputs
    """What it reads: how its preprocessing is found, and written."""
    keys: Mapping[str, str]
    """Keys of their config and the keys of ours that have the same value."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of their config where config.json leaves them out."""
    ours: Mapping[str, Any] = field(default_factory=dict)
    """Values of our config that all such models have."""
    theirs: Mapping[str, Any] = field(default_factory=dict)
    """Values of their config without which ours would compute something else."""
    more_ours: Callable[[Values], Values] = lambda theirs: {}
    """Further values of our config, from theirs."""
    more_theirs: Callable[[Any], Values] = lambda ours: {}
    """Further values of their config, from ours."""
    differs: Callable[[Any], Iterable[str]] = lambda ours: ()
    """What else of our config they could not compute, in words."""
    links: Callable[[Any], Iterable[Link]]
    """The tensors of a model of our config."""
    prefix: str = ""
    """How the names of the body begin; files of a bare body leave it out."""
    left_out: tuple[str, ...] = ()
    """Tensors that are not needed, as regular expressions; reported."""
    computed: tuple[str, ...] = ()
    """Tensors that follow from the config or from others; not reported."""
    note: str = ""
    """What a reader of an exported model should know."""
    renames: tuple[tuple[str, str], ...] = ()
    """Names in files of other releases, as regular expressions, and the usual ones."""
    newer: tuple[tuple[str, str], ...] = ()
    """The usual names of layers, and what the newest release of transformers calls these layers: an
    adapter names layers as they are in memory, not in files."""

    def our_config(self, theirs: Values, where: str) -> Config:
        """Our config of a model with their config, which stands in the file `where`."""
        values = {**self.defaults, **theirs}
        for key, wanted in self.theirs.items():
            if values.get(key, wanted) != wanted:
                raise GlassformerError(
                    f"{where}: {key} is {values[key]}, but models of type {self.architecture} can "
                    f"be imported only if it is {wanted}."
                )
        missing = [key for key in self.keys if key not in values]
        if missing:
            raise GlassformerError(f"{where} has no {missing[0]}. Copy it again.")
        our_values = {**self.ours, **{ours: values[key] for key, ours in self.keys.items()}}
        try:
            our_values |= self.more_ours(values)
        except WrongValueError as error:
            raise GlassformerError(f"{where}: {error}") from None
        names = MADE_FROM | {ours: key for key, ours in self.keys.items()}
        origins: Origins = {ours: f"{key} in {where}" for ours, key in names.items()}
        return parse(row(self.model).config, our_values, where, origins)

    def their_config(self, config: Config) -> Values:
        """Their config of a model with ours; only if there are no `differences`."""
        values = explicit(config)
        same = {key: values[ours] for key, ours in self.keys.items()}
        return {**self.theirs, **same, **self.more_theirs(config)}

    def differences(self, config: Config) -> list[str]:
        """Why a model of ours cannot be written as this architecture, in words."""
        values = explicit(config)
        wrong = [
            f"{key} is {_shown(values[key])} instead of {_shown(wanted)}"
            for key, wanted in self.ours.items()
            if key not in _ONLY_TRAINING and values[key] != wanted
        ]
        return [*wrong, *self.differs(config)]


_ONLY_TRAINING = {"initialization"}  # a trained model does not depend on it


@dataclass(frozen=True)
class Family:
    """A row of the table."""

    name: str
    """The model_type in their config.json."""
    layouts: tuple[Layout, ...]
    """The first is meant if a config.json names no architecture."""

    def layout(self, architectures: Any, where: str) -> Layout:
        named = architectures if isinstance(architectures, list) and architectures else None
        if named is None:
            return self.layouts[0]
        for layout in self.layouts:
            if layout.architecture in named:
                return layout
        available = ", ".join(layout.architecture for layout in self.layouts)
        raise GlassformerError(
            f"{where}: the architecture {named[0]} cannot be imported. Of the family {self.name}, "
            f"these can: {available}."
        )


def explicit(config: Config) -> Values:
    """All values of a config of ours; sizes that follow from others are filled in."""
    return config.explicit() if isinstance(config, StackConfig) else dict(config)


def _shown(value: Any) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


# --- what several families have in common ---

# What their configs call activations, and ours.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def our_activation(name: Any) -> str:
    if name not in ACTIVATIONS:
        names = ", ".join(ACTIVATIONS)
        raise WrongValueError(f'the activation "{name}" is not available. These are: {names}.')
    return ACTIVATIONS[name]


def their_activation(name: str) -> str:
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == name)


def plain_heads(config: Any) -> Iterator[str]:
    """Families whose heads together are as wide as the model, with keys and values for each."""
    if config.width_of_head * config.num_heads != config.d_model:
        yield f"head_dim is {config.width_of_head} instead of d_model / num_heads"
    if config.kv_heads != config.num_heads:
        yield f"num_kv_heads is {config.kv_heads} instead of {config.num_heads}"


def no_gate(config: Any) -> Iterator[str]:
    if config.activation == "swiglu":
        yield "activation is swiglu"


MOST_LABELS = 2**20


def labels_from(theirs: Values) -> Values:
    """The names of the labels, in the order of their numbers."""
    names = theirs.get("id2label") or {}
    try:
        numbered = {int(number): str(name) for number, name in names.items()}
        labels = [numbered[number] for number in range(len(numbered))]
    except (AttributeError, KeyError, ValueError):
        raise WrongValueError("id2label does not number its labels from 0.") from None
    if not labels:  # transformers assumes two
        count = theirs.get("num_labels")
        count = 2 if count is None else count
        if count > MOST_LABELS:
            raise WrongValueError(
                f"num_labels is {count}, but at most {MOST_LABELS:,} are possible."
            )
        labels = [f"LABEL_{number}" for number in range(count)]
    several = theirs.get("problem_type") == "multi_label_classification"
    if theirs.get("problem_type") == "regression" or len(labels) < 2:
        raise WrongValueError("a model that predicts a number, not a label, cannot be imported.")
    return {"labels": labels, "multi_label": several}


def image_labels_from(theirs: Values) -> Values:
    """The labels of a classifier of images and its activation. Theirs has no dropout before the
    head."""
    activation = our_activation(theirs["hidden_act"])
    return labels_from(theirs) | {"activation": activation, "head_dropout": 0.0}


def image_labels_to(config: Any) -> Values:
    height, width = config.size
    return labels_to(config) | {
        "hidden_act": their_activation(config.activation),
        "image_size": height if height == width else [height, width],
    }


def labels_to(config: Any) -> Values:
    kind = "multi_label_classification" if config.multi_label else "single_label_classification"
    return {
        "id2label": {str(number): name for number, name in enumerate(config.labels)},
        "label2id": {name: number for number, name in enumerate(config.labels)},
        "problem_type": kind,
    }
