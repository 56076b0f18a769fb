"""DistilBERT: BERT with half its layers, without segments; its classifier has a ReLU."""

from collections.abc import Iterator
from typing import Any

from glassformer.config import Values
from glassformer.formats.families.bert import OURS, SENTENCES, differs, masked_differs
from glassformer.formats.family import (
    Family,
    Layout,
    WrongValueError,
    labels_from,
    labels_to,
    our_activation,
    their_activation,
)
from glassformer.formats.links import Link, layer, same

PARTS = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feedforward.up": "ffn.lin1",
    "feedforward.down": "ffn.lin2",
    "feedforward_norm": "output_layer_norm",
}


def body(config: Any, prefix: str = "") -> Iterator[Link]:
    embeddings = f"{prefix}embeddings"
    yield same("encoder.embedding.weight", f"{embeddings}.word_embeddings.weight")
    yield same("encoder.positions.table.weight", f"{embeddings}.position_embeddings.weight")
    yield from layer("encoder.embedding_norm", f"{embeddings}.LayerNorm")
    for number in range(config.num_layers):
        for ours, theirs in PARTS.items():
            yield from layer(
                f"encoder.blocks.{number}.{ours}", f"{prefix}transformer.layer.{number}.{theirs}"
            )


def masked(config: Any) -> Iterator[Link]:
    yield from body(config, "distilbert.")
    yield from layer("transform.0", "vocab_transform")
    yield from layer("transform.2", "vocab_layer_norm")
    yield same("head.bias", "vocab_projector.bias")
    if not config.tie_weights:
        yield same("head.weight", "vocab_projector.weight")


def classifier(config: Any) -> Iterator[Link]:
    yield from body(config, "distilbert.")
    yield from layer("pooler", "pre_classifier")
    yield from layer("head", "classifier")


def tagger(config: Any) -> Iterator[Link]:
    yield from body(config, "distilbert.")
    yield from layer("head", "classifier")


def shape_from(theirs: Values) -> Values:
    return {"activation": our_activation(theirs["activation"])}


def shape_to(config: Any) -> Values:
    return {"activation": their_activation(config.activation)}


def masked_from(theirs: Values) -> Values:
    if theirs["activation"] != "gelu":
        raise WrongValueError(f"activation is {theirs['activation']}, not gelu.")
    return {"activation": "gelu", "tie_weights": theirs["tie_word_embeddings"]}


def masked_to(config: Any) -> Values:
    return {"activation": "gelu", "tie_word_embeddings": config.tie_weights}


def embedder_from(theirs: Values) -> Values:
    return shape_from(theirs) | theirs.get(SENTENCES, {})


def labelled_from(theirs: Values) -> Values:
    return shape_from(theirs) | labels_from(theirs)


def labelled_to(config: Any) -> Values:
    return shape_to(config) | labels_to(config)


KEYS = {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "context_length",
    "dim": "d_model",
    "n_layers": "num_layers",
    "n_heads": "num_heads",
    "hidden_dim": "d_feedforward",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}
DEFAULTS = {
    "max_position_embeddings": 512,
    "activation": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "seq_classif_dropout": 0.2,
    "tie_word_embeddings": True,
}
BODY = OURS | {"num_segments": 0, "norm_eps": 1e-12}
CLS = {"pooling": "first", "pooler": True, "pooler_activation": "relu", "bag": False}


def _layout(**rest: Any) -> Layout:
    rest["ours"] = BODY | rest["ours"]
    return Layout(
        keys=KEYS | rest.pop("keys", {}),
        defaults=DEFAULTS,
        theirs={"sinusoidal_pos_embds": False},
        computed=(r"(distilbert\.)?embeddings\.position_ids", r"vocab_projector\.weight"),
        **rest,
    )


_labelled = {"inputs": "labelled text", "more_ours": labelled_from, "more_theirs": labelled_to}
_labelled |= {"differs": differs, "prefix": "distilbert."}
_labelled |= {"keys": {"seq_classif_dropout": "head_dropout"}}

FAMILY = Family(
    "distilbert",
    (
        _layout(
            architecture="DistilBertForMaskedLM",
            model="bert",
            inputs="masked text",
            ours={"has_head": True},
            more_ours=masked_from,
            more_theirs=masked_to,
            differs=masked_differs,
            links=masked,
            prefix="distilbert.",
        ),
        _layout(
            architecture="DistilBertForSequenceClassification",
            model="classifier",
            ours=CLS,
            links=classifier,
            **_labelled,
        ),
        _layout(
            architecture="DistilBertForTokenClassification",
            model="tagger",
            ours={},
            links=tagger,
            **_labelled,
        ),
        _layout(
            architecture="DistilBertModel",
            model="bert",
            inputs="masked text",
            ours={"has_head": False, "tie_weights": True},
            more_ours=embedder_from,
            more_theirs=shape_to,
            differs=differs,
            links=body,
            renames=((r"^distilbert\.", ""),),
        ),
    ),
)
