"""Classifiers and taggers with a Transformer body, an encoder or a GPT, that may be pre-trained.

logits = head(dropout(pool(body(ids))))       (B, C) classifier
logits = head(dropout(body(ids)))             (B, T, C) tagger
"""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from glassformer.models.bag_beside import BagBesideConfig, ClassifierWithBag
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.labeller import LabelsConfig, TokenTagger
from glassformer.models.stack import initialize
from glassformer.nn.idf import IdfPooling
from glassformer.nn.linear import Linear
from glassformer.nn.pooling import pool


class ClassifierConfig(EncoderConfig, BagBesideConfig):
    """The shape of an encoder, and how its vectors are pooled."""

    pooling: Literal["mean", "idf", "first", "max"] = "mean"
    """idf: a sum in which rare tokens count more, as in a bag of words (of a time series: the
    mean)."""
    pooler: bool = False
    """BERT's tanh(Linear) on the pooled vector."""


class Classifier(ClassifierWithBag):
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
        x = self.encoder(ids, is_text)  # (B, T, D)
        if self.idf_pooling is not None:
            pooled = self.idf_pooling(x, ids, is_text)  # (B, D)
        else:
            pooling = self.config.pooling
            pooled = pool(x, is_text, "mean" if pooling == "idf" else pooling)
        return pooled if self.pooler is None else self.pooler(pooled).tanh()


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


class GPTClassifierConfig(GPTConfig, BagBesideConfig):
    """The shape of a GPT, and the labels of a text."""

    pooling: Literal["last", "mean", "max"] = "last"
    """What the head reads: the last token, which has seen all others, or all of them pooled."""


class GPTClassifier(ClassifierWithBag):
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


def _headless(config: GPTConfig) -> GPT:
    gpt = GPT(config)
    del gpt.head  # it predicts tokens: it would be saved and trained without being used
    return gpt
