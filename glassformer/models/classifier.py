"""Labels for texts and for words: a body that reads, and a linear head on what it says.

    logits = head(dropout(represent(ids)))        (B, C) per text, (B, T, C) per token

`Classifier` and `Tagger` read with an encoder, `GPTClassifier` and `GPTTagger` with a GPT. Either
body may come from pre-training: `body_config` gives its shape and `load_body` its weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Config, Names
from glassformer.errors import GlassformerError
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.parts import initialize
from glassformer.nn.dropout import Dropout
from glassformer.nn.linear import Linear


class LabelsConfig(Config):
    """What a model can say, and what the columns were called in which it was shown."""

    labels: tuple[str, ...] = ()
    """Empty in a recipe: those of the data."""
    multi_label: bool = False
    """Each label is a question of its own: several may be true, or none."""
    text_column: Names = ()
    label_column: str | None = None
    head_dropout: float = Field(0.1, ge=0, lt=1)
    """Dropout on what the head reads."""

    @model_validator(mode="after")
    def _differ(self) -> LabelsConfig:
        for label, count in Counter(self.labels).most_common(1):
            if count > 1:
                raise ValueError(f'the label "{label}" is given twice')
        return self


class Labeller(nn.Module, ABC):
    """A linear head with one output per label, on whatever `represent` makes of the input."""

    temperature: Tensor
    """Logits are divided by it before they become probabilities: calibration sets it."""

    def __init__(self, config: LabelsConfig, width: int, context_length: int | None) -> None:
        super().__init__()
        if not config.labels:
            raise GlassformerError("a classifier needs labels: the names of its classes.")
        self.config = config
        self.context_length = context_length
        self.head_dropout = Dropout(config.head_dropout)
        self.head: nn.Linear = Linear(width, len(config.labels))
        initialize(self.head, "bert", 1)
        self.register_buffer("temperature", torch.tensor(1.0))

    @abstractmethod
    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """What the head reads."""

    @property
    def body(self) -> nn.Module | None:
        """The part that may come pre-trained, if it has one."""
        parts = dict(self.named_children())
        return parts.get("encoder") or parts.get("gpt")

    @property
    def labels(self) -> tuple[str, ...]:
        return self.config.labels

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def forward(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Logits of the labels. Padding is on the right, where `is_text` is False."""
        return self.head(self.head_dropout(self.represent(ids, is_text)))

    def probabilities(self, logits: Tensor) -> Tensor:
        """Of each label: they sum to one, unless each label is a question of its own."""
        scaled = logits / self.temperature
        return scaled.sigmoid() if self.config.multi_label else scaled.softmax(dim=-1)


class TextClassifier(Labeller):
    """Labels a text: `represent` gives (B, D), `forward` (B, C)."""


class TokenTagger(Labeller):
    """Labels every token: `represent` gives (B, T, D), `forward` (B, T, C)."""


class ClassifierConfig(EncoderConfig, LabelsConfig):
    """An encoder's shape, and how its vectors become one."""

    pooling: Literal["mean", "first", "max"] = "mean"
    pooler: bool = False
    """BERT's tanh(Linear) on the pooled vector."""


class Classifier(TextClassifier):
    """An encoder whose vectors are pooled into one for the whole text."""

    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        self.encoder = Encoder(config)
        self.pooler = Linear(config.d_model, config.d_model) if config.pooler else None
        if self.pooler is not None:
            initialize(self.pooler, config.initialization, config.num_layers)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        pooled = pool(self.encoder(ids, is_text), is_text, self.config.pooling)  # (B, D)
        return pooled if self.pooler is None else self.pooler(pooled).tanh()


class TaggerConfig(EncoderConfig, LabelsConfig):
    """An encoder's shape, and the labels of its tokens."""


class Tagger(TokenTagger):
    """An encoder with a prediction for every token."""

    def __init__(self, config: TaggerConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        self.encoder = Encoder(config)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self.encoder(ids, is_text)


class GPTClassifierConfig(GPTConfig, LabelsConfig):
    """A GPT's shape, and the labels of a text."""

    pooling: Literal["last", "mean", "max"] = "last"
    """What the head reads: the last token, which has seen all the others, or all of them."""


class GPTClassifier(TextClassifier):
    """A GPT that has read the whole text when it comes to the last token."""

    config: GPTClassifierConfig

    def __init__(self, config: GPTClassifierConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        self.gpt = _headless(config)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        hidden = self.gpt.hidden(ids)  # (B, T, D): causal, so nobody sees the padding behind it
        if self.config.pooling != "last":
            return pool(hidden, is_text, self.config.pooling)
        if is_text is None:
            return hidden[:, -1]
        last = (is_text.sum(dim=1) - 1).clamp(min=0)  # (B,)
        return hidden[torch.arange(len(ids), device=ids.device), last]


class GPTTaggerConfig(GPTConfig, LabelsConfig):
    """A GPT's shape, and the labels of its tokens."""


class GPTTagger(TokenTagger):
    """A GPT with a prediction for every token, from itself and the past."""

    def __init__(self, config: GPTTaggerConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        self.gpt = _headless(config)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self.gpt.hidden(ids)


def pool(
    x: Tensor, is_text: Tensor | None, pooling: Literal["mean", "first", "max"] = "mean"
) -> Tensor:
    """One vector from those of the real tokens: (B, T, D) → (B, D). Of no token at all, zero."""
    if pooling == "first":
        return x[:, 0]
    if is_text is None:
        return x.mean(dim=1) if pooling == "mean" else x.amax(dim=1)
    real = is_text[..., None]  # (B, T, 1)
    if pooling == "mean":
        return x.masked_fill(~real, 0).sum(dim=1) / real.sum(dim=1).clamp(min=1)
    largest = x.masked_fill(~real, -torch.inf).amax(dim=1)
    return largest.masked_fill(~real.any(dim=1), 0)


def load_body(model: nn.Module, pretrained: nn.Module) -> None:
    """Give the body of a classifier or tagger the weights of a pre-trained BERT or GPT."""
    body = model.body if isinstance(model, Labeller) else None
    source = pretrained.encoder if isinstance(pretrained, Bert) else pretrained
    if body is None or type(source) is not type(body):
        raise GlassformerError(
            f"a {_called(model)} cannot begin with the weights of a {_called(pretrained)}: its "
            "body is another."
        )
    expected = body.state_dict()
    found = {
        name: weight for name, weight in source.state_dict().items() if not name.startswith("head.")
    }
    for name in {**expected, **found}:
        ours, theirs = (
            str(tuple(weights[name].shape)) if name in weights else "absent"
            for weights in (expected, found)
        )
        if ours != theirs:
            raise GlassformerError(
                f"the pre-trained model has another shape: its {name} is {theirs}, and here it is "
                f"{ours}. Take the settings of the pre-trained model."
            )
    body.load_state_dict(found)


def body_config(pretrained: Config, kind: Literal["classify", "tag"]) -> tuple[str, dict[str, Any]]:
    """Which model to build on a pre-trained one of that config, and the values of its config."""
    noun = {"classify": "classifier", "tag": "tagger"}[kind]
    if not isinstance(pretrained, BertConfig | GPTConfig) or isinstance(pretrained, LabelsConfig):
        raise GlassformerError(
            f"a {noun} can be built on a pre-trained bert or gpt, not on {_called(pretrained)}."
        )
    # What is null there is said here: a preset must not fill it in otherwise.
    is_bert = isinstance(pretrained, BertConfig)
    values = pretrained.model_dump(exclude={"tie_weights"} if is_bert else set())
    values["d_feedforward"] = pretrained.d_feedforward or 4 * pretrained.d_model
    values["head_dropout"] = LabelsConfig.model_fields["head_dropout"].default
    if not isinstance(pretrained, GPTConfig):
        return noun, values
    values["head_dim"] = pretrained.width_of_head
    values["num_kv_heads"] = pretrained.num_kv_heads or pretrained.num_heads
    values["d_embedding"] = pretrained.d_embedding or pretrained.d_model
    return f"gpt-{noun}", values


def _called(thing: object) -> str:
    """A model, or one's config, by the name that users know."""
    from glassformer.models import MODELS  # here, because that table is made of these models

    return next(name for name, each in MODELS.items() if type(thing) in (each.model, each.config))


def _headless(config: GPTConfig) -> GPT:
    gpt = GPT(config)
    del gpt.head  # it predicts tokens; what is saved and trained is what is used
    return gpt
