"""BERT and RoBERTa: post-norm encoders with heads for masked words, labels and tags.

    BertForMaskedLM                   → bert
    BertForSequenceClassification     → classifier
    BertForTokenClassification        → tagger
    BertModel                         → bert without an output layer, which embeds texts

RoBERTa differs in the names of its heads and in its table of positions, whose first rows are not
used.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from glassformer.config import Values
from glassformer.formats.family import (
    Family,
    Layout,
    WrongValueError,
    labels_from,
    labels_to,
    no_gate,
    our_activation,
    their_activation,
)
from glassformer.formats.links import Link, after_rows, layer, same

PARTS = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}
SENTENCES = "sentence_transformers"
"""The key under which a reader passes what modules.json says: pooling, normalize, length."""
ROBERTA_OFFSET = 2  # the first position is number 2: padding has number 1


def body(config: Any, prefix: str, first_position: int = 0) -> Iterator[Link]:
    embeddings = f"{prefix}embeddings"
    yield same("encoder.embedding.weight", f"{embeddings}.word_embeddings.weight")
    yield after_rows(
        "encoder.positions.table.weight", f"{embeddings}.position_embeddings.weight", first_position
    )
    segments = f"{embeddings}.token_type_embeddings.weight"
    if config.num_segments:
        yield same("encoder.segments.weight", segments)
    else:  # they always have such a table: one that adds nothing
        yield Link((), segments, lambda x: (), partial(torch.zeros, 1, config.d_model))
    yield from layer("encoder.embedding_norm", f"{embeddings}.LayerNorm")
    for number in range(config.num_layers):
        for ours, theirs in PARTS.items():
            yield from layer(
                f"encoder.blocks.{number}.{ours}", f"{prefix}encoder.layer.{number}.{theirs}"
            )


def head(config: Any, theirs: str) -> Iterator[Link]:
    """Their bias has two names, of which an output layer of its own uses the second."""
    names = f"{theirs}.bias", f"{theirs}.decoder.bias"
    if config.tie_weights:
        yield same("head.bias", *names)
    else:
        yield Link(("head.bias",), names[1], aliases=names[:1], copies=names[:1])
        yield same("head.weight", f"{theirs}.decoder.weight")


def bert_masked(config: Any) -> Iterator[Link]:
    yield from body(config, "bert.")
    yield from layer("transform.0", "cls.predictions.transform.dense")
    yield from layer("transform.2", "cls.predictions.transform.LayerNorm")
    yield from head(config, "cls.predictions")


def bert_classifier(config: Any) -> Iterator[Link]:
    yield from body(config, "bert.")
    yield from layer("pooler", "bert.pooler.dense")
    yield from layer("head", "classifier")


def bert_tagger(config: Any) -> Iterator[Link]:
    yield from body(config, "bert.")
    yield from layer("head", "classifier")


def roberta_masked(config: Any) -> Iterator[Link]:
    yield from body(config, "roberta.", ROBERTA_OFFSET)
    yield from layer("transform.0", "lm_head.dense")
    yield from layer("transform.2", "lm_head.layer_norm")
    yield from head(config, "lm_head")


def roberta_classifier(config: Any) -> Iterator[Link]:
    yield from body(config, "roberta.", ROBERTA_OFFSET)
    yield from layer("pooler", "classifier.dense")
    yield from layer("head", "classifier.out_proj")


def roberta_tagger(config: Any) -> Iterator[Link]:
    yield from body(config, "roberta.", ROBERTA_OFFSET)
    yield from layer("head", "classifier")


def shape_from(theirs: Values, first_position: int) -> Values:
    return {
        "activation": our_activation(theirs["hidden_act"]),
        "context_length": theirs["max_position_embeddings"] - first_position,
        "num_segments": theirs["type_vocab_size"],
    }


def shape_to(config: Any, first_position: int) -> Values:
    return {
        "hidden_act": their_activation(config.activation),
        "max_position_embeddings": config.context_length + first_position,
        "type_vocab_size": max(1, config.num_segments),
    }


def masked_from(theirs: Values, first_position: int) -> Values:
    if theirs["hidden_act"] != "gelu":
        raise WrongValueError(f"hidden_act is {theirs['hidden_act']}, not gelu.")
    return shape_from(theirs, first_position) | {"tie_weights": theirs["tie_word_embeddings"]}


def embedder_from(theirs: Values, first_position: int) -> Values:
    return shape_from(theirs, first_position) | theirs.get(SENTENCES, {})


def masked_to(config: Any, first_position: int) -> Values:
    return shape_to(config, first_position) | {"tie_word_embeddings": config.tie_weights}


def labelled_from(theirs: Values, first_position: int) -> Values:
    dropout = theirs.get("classifier_dropout")
    return {
        **shape_from(theirs, first_position),
        **labels_from(theirs),
        "head_dropout": theirs["hidden_dropout_prob"] if dropout is None else dropout,
    }


def labelled_to(config: Any, first_position: int) -> Values:
    dropout = {"classifier_dropout": config.head_dropout}
    return shape_to(config, first_position) | labels_to(config) | dropout


def differs(config: Any) -> Iterator[str]:
    yield from no_gate(config)
    if config.num_features is not None:
        yield "it reads numbers instead of tokens"


def masked_differs(config: Any) -> Iterator[str]:
    if config.num_features is not None:
        yield "it reads numbers instead of tokens"
    if config.activation != "gelu":
        yield f"activation is {config.activation} instead of gelu"


KEYS = {
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "d_feedforward",
    "layer_norm_eps": "norm_eps",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}
DEFAULTS = {
    "hidden_act": "gelu",
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "tie_word_embeddings": True,
}
OURS = {
    "positions": "learned",
    "norm": "layer",
    "pre_norm": False,
    "final_norm": False,
    "qk_norm": False,
    "bias": True,
    "embedding_norm": True,
    "initialization": "bert",
}
THEIRS = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
OLD_NAMES = ((r"LayerNorm\.gamma$", "LayerNorm.weight"), (r"LayerNorm\.beta$", "LayerNorm.bias"))
POSITION_IDS = r"(\w+\.)?embeddings\.position_ids"
POOLER = r"(\w+\.)?pooler\.dense\.\w+"
CLS = {"pooling": "first", "pooler": True, "pooler_activation": "tanh", "bag": False}


def _layout(first: int, **rest: Any) -> Layout:
    for key in ("more_ours", "more_theirs"):
        rest[key] = partial(rest[key], first_position=first)
    rest["ours"] = OURS | rest.get("ours", {})
    rest["computed"] = (POSITION_IDS, *rest.get("computed", ()))
    rest["renames"] = (*OLD_NAMES, *rest.get("renames", ()))
    padding = {"pad_token_id": first - 1} if first else {}  # from which positions are counted
    return Layout(keys=KEYS, defaults=DEFAULTS, theirs=THEIRS | padding, **rest)


_masked = {
    "model": "bert",
    "inputs": "masked text",
    "ours": {"has_head": True},
    "more_ours": masked_from,
    "more_theirs": masked_to,
    "differs": masked_differs,
}
_classifier = {
    "model": "classifier",
    "inputs": "labelled text",
    "ours": CLS,
    "more_ours": labelled_from,
    "more_theirs": labelled_to,
    "differs": differs,
}
_tagger = {key: value for key, value in _classifier.items() if key != "ours"} | {"model": "tagger"}
_embedder = {
    "model": "bert",
    "inputs": "masked text",
    "ours": {"has_head": False, "tie_weights": True},
    "note": "the pooler is not written, because `embed` does not use it: in transformers, "
    "pooler_output is random, last_hidden_state is not",
    "more_ours": embedder_from,
    "more_theirs": shape_to,
    "differs": differs,
}

BERT = Family(
    "bert",
    (
        _layout(
            0,
            architecture="BertForMaskedLM",
            links=bert_masked,
            prefix="bert.",
            left_out=(POOLER, r"cls\.seq_relationship\.\w+"),
            computed=(r"cls\.predictions\.(decoder\.(weight|bias)|bias)",),
            **_masked,
        ),
        _layout(
            0,
            architecture="BertForSequenceClassification",
            links=bert_classifier,
            prefix="bert.",
            **_classifier,
        ),
        _layout(
            0,
            architecture="BertForTokenClassification",
            links=bert_tagger,
            prefix="bert.",
            left_out=(POOLER,),
            **_tagger,
        ),
        _layout(
            0,
            architecture="BertModel",
            links=partial(body, prefix=""),
            left_out=(POOLER,),
            renames=((r"^bert\.", ""),),
            **_embedder,
        ),
    ),
)

ROBERTA = Family(
    "roberta",
    (
        _layout(
            ROBERTA_OFFSET,
            architecture="RobertaForMaskedLM",
            links=roberta_masked,
            prefix="roberta.",
            left_out=(POOLER,),
            computed=(r"lm_head\.(decoder\.(weight|bias)|bias)",),
            **_masked,
        ),
        _layout(
            ROBERTA_OFFSET,
            architecture="RobertaForSequenceClassification",
            links=roberta_classifier,
            prefix="roberta.",
            left_out=(POOLER,),
            **_classifier,
        ),
        _layout(
            ROBERTA_OFFSET,
            architecture="RobertaForTokenClassification",
            links=roberta_tagger,
            prefix="roberta.",
            left_out=(POOLER,),
            **_tagger,
        ),
        _layout(
            ROBERTA_OFFSET,
            architecture="RobertaModel",
            links=partial(body, prefix="", first_position=ROBERTA_OFFSET),
            left_out=(POOLER,),
            renames=((r"^roberta\.", ""),),
            **_embedder,
        ),
    ),
)
