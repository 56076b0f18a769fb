"""Classifiers and taggers with a Transformer body, an encoder or a GPT, that may be pre-trained.

    logits = head(dropout(pool(body(ids))))       (B, C) classifier
    logits = head(dropout(body(ids)))             (B, T, C) tagger

A config holds the shape of the body and the labels. So a classifier is no wrapper with a path to
another model: its folder is complete.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.ensemble import Ensemble, EnsembleConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.heads import LabelsConfig, TokenTagger
from glassformer.models.stack import Wiring, initialize
from glassformer.nn.linear import Linear
from glassformer.nn.pooling import IdfPooling, pool


class ClassifierConfig(EncoderConfig, EnsembleConfig):
    """The shape of an encoder, and how its vectors are pooled."""

    pooling: Literal["mean", "idf", "first", "max"] = "mean"
    """idf: a sum in which rare tokens count more, as in a bag of words (of a time series: the
    mean)."""
    pooler: bool = False
    """BERT's tanh(Linear) on the pooled vector."""
    pooler_activation: Literal["tanh", "relu"] = "tanh"
    """DistilBERT's is relu."""


class Classifier(Ensemble):
    """An encoder whose vectors are pooled into one for the whole text."""

    config: ClassifierConfig
    body_name = "encoder"

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config, config.d_model, config.context_length, config.vocab_size)
        self.encoder = Encoder(config)
        self.pooler = Linear(config.d_model, config.d_model) if config.pooler else None
        if self.pooler is not None:
            initialize(self.pooler, config.initialization, config.num_layers)
        weighted = config.vocab_size if config.pooling == "idf" else None  # tokens, if any
        self.idf_pooling = IdfPooling(weighted) if weighted else None

    def see(self, texts: Sequence[Tensor], words: Sequence[str] = ()) -> None:
        super().see(texts, words)
        if self.idf_pooling is not None:
            self.idf_pooling.see(texts)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self._pooled(self.encoder(ids, is_text), ids, is_text)

    def read_out(self, states: Tensor, ids: Tensor) -> Tensor:
        """Logits from the states after any block, of texts without padding: (B, T, D) → (B, C)."""
        pooled = self._pooled(self.encoder.final_norm(states), ids, None)
        return self.with_bag(self.head(pooled), ids)

    @torch.inference_mode()
    def contributions(self, ids: Tensor) -> Tensor | None:
        """Each token adds its last state, if these are summed up and only the head follows."""
        if self.pooler is not None or self.config.pooling not in ("mean", "idf"):
            return None
        states = self.encoder(ids[None])[0]  # (T, D)
        weights = torch.full_like(states[:, 0], 1 / len(ids))
        if self.idf_pooling is not None:
            weights = self.idf_pooling.weights(ids[None])[0]
        return weights[:, None] * (states @ self.head.weight.T)  # (T, C)

    def _pooled(self, x: Tensor, ids: Tensor, is_text: Tensor | None) -> Tensor:
        if self.idf_pooling is not None:
            pooled = self.idf_pooling(x, ids, is_text)  # (B, D)
        else:
            pooling = self.config.pooling
            pooled = pool(x, is_text, "mean" if pooling == "idf" else pooling)
        if self.pooler is None:
            return pooled
        projected = self.pooler(pooled)
        return projected.relu() if self.config.pooler_activation == "relu" else projected.tanh()

    def wiring(self) -> Wiring:
        pooling = self.config.pooling if self.idf_pooling is None else "idf_pooling"
        pooler = () if self.pooler is None else ("pooler", f":{self.config.pooler_activation}")
        return Wiring((self.encoder.wired("encoder"),), (*pooler, "head"), pooling)


class TaggerConfig(EncoderConfig, LabelsConfig):
    """The shape of an encoder, and the labels of its tokens."""


class Tagger(TokenTagger):
    """An encoder with a prediction for every token."""

    body_name = "encoder"

    def __init__(self, config: TaggerConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        self.encoder = Encoder(config)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self.encoder(ids, is_text)

    def read_out(self, states: Tensor, ids: Tensor) -> Tensor:
        """Logits from the states after any block: (B, T, D) → (B, T, C)."""
        return self.head(self.encoder.final_norm(states))

    def wiring(self) -> Wiring:
        return Wiring((self.encoder.wired("encoder"),), ("encoder.final_norm", "head"))


class GPTClassifierConfig(GPTConfig, EnsembleConfig):
    """The shape of a GPT, and the labels of a text."""

    pooling: Literal["last", "mean", "max"] = "last"
    """What the head reads: the last token, which has seen all others, or all of them pooled."""


class GPTClassifier(Ensemble):
    """A GPT whose vectors are pooled: by default, the last token stands for the text."""

    config: GPTClassifierConfig
    body_name = "gpt"
    is_causal = True

    def __init__(self, config: GPTClassifierConfig) -> None:
        super().__init__(config, config.d_model, config.context_length, config.vocab_size)
        self.gpt = _headless(config)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        # Attention is causal, so the text does not see the padding after it.
        return pool(self.gpt.hidden(ids), is_text, self.config.pooling)  # (B, D)

    def read_out(self, states: Tensor, ids: Tensor) -> Tensor:
        """Logits from the states after any block, of texts without padding: (B, T, D) → (B, C)."""
        pooled = pool(self.gpt.final_norm(states), None, self.config.pooling)
        return self.with_bag(self.head(pooled), ids)

    def wiring(self) -> Wiring:
        return Wiring((self.gpt.wired("gpt."),), ("head",), self.config.pooling)


class GPTTaggerConfig(GPTConfig, LabelsConfig):
    """The shape of a GPT, and the labels of its tokens."""


class GPTTagger(TokenTagger):
    """A GPT with a prediction for every token, from itself and the past."""

    body_name = "gpt"
    is_causal = True

    def __init__(self, config: GPTTaggerConfig) -> None:
        super().__init__(config, config.d_model, config.context_length)
        self.gpt = _headless(config)

    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self.gpt.hidden(ids)

    def read_out(self, states: Tensor, ids: Tensor) -> Tensor:
        """Logits from the states after any block: (B, T, D) → (B, T, C)."""
        return self.head(self.gpt.final_norm(states))

    def wiring(self) -> Wiring:
        return Wiring((self.gpt.wired("gpt."),), ("gpt.final_norm", "head"))


def _headless(config: GPTConfig) -> GPT:
    gpt = GPT(config)
    del gpt.head  # it predicts tokens: it would be saved and trained without being used
    return gpt
