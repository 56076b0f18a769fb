"""BERT: a masked language model. Words are hidden, and the encoder guesses them from both sides.

    hidden = encoder(ids)                           (B, T, D)
    logits = transform(hidden) · vocabularyᵀ + b    (B, T, V)

What it learns that way, an encoder, is then taught to classify texts or words: `classifier.py`.
"""

from __future__ import annotations

import torch
from pydantic import model_validator
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.parts import initialize
from glassformer.nn.linear import Linear
from glassformer.nn.norms import norm


class BertConfig(EncoderConfig):
    """The shape of a BERT: an encoder's, and how it predicts."""

    tie_weights: bool = True
    """Predict with the embedding matrix itself."""

    @model_validator(mode="after")
    def _reads_tokens(self) -> BertConfig:
        if self.num_features is not None:
            raise ValueError("a masked language model reads tokens: num_features must be null")
        return self


class Bert(nn.Module):
    """An encoder and a prediction for every position.

    The two are apart so that a loss can make the logits of the masked positions only.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if config.vocab_size is None:
            raise GlassformerError("a BERT needs vocab_size: the number of tokens it knows.")
        self.config = config
        self.encoder = Encoder(config)
        self.transform = nn.Sequential(
            Linear(config.d_model, config.d_model, bias=config.bias),
            nn.GELU(),
            norm(config.norm, config.d_model, config.norm_eps, config.bias),
        )
        self.head = Linear(config.d_model, config.vocab_size)
        initialize(self.transform, config.initialization, config.num_layers)
        initialize(self.head, config.initialization, config.num_layers)
        if config.tie_weights:
            embedding = self.encoder.embedding
            if not isinstance(embedding, nn.Embedding):
                raise TypeError("a masked language model reads tokens")
            self.head.weight = embedding.weight

    @property
    def context_length(self) -> int:
        return self.config.context_length

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def hidden(
        self, ids: Tensor, is_text: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """What the prediction is made from: (B, T) → (B, T, D)."""
        return self.encoder(ids, is_text, segments)

    def predict(self, hidden: Tensor) -> Tensor:
        """Logits of the token that stands at each position: (…, D) → (…, V)."""
        return self.head(self.transform(hidden))

    def forward(
        self, ids: Tensor, is_text: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Logits at every position: (B, T) → (B, T, V)."""
        return self.predict(self.hidden(ids, is_text, segments))
