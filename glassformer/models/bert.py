"""BERT: a masked language model. It predicts hidden words from the words on both sides.

    hidden = encoder(ids)                           (B, T, D)
    logits = transform(hidden) · vocabularyᵀ + b    (B, T, V)
    vector = pool(hidden)                           (B, D) of a whole text

Its encoder is then fine-tuned to classify texts or tag words: see `classifier.py`.
"""

from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.config import Count
from glassformer.errors import GlassformerError
from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.heads import HeadedModel
from glassformer.models.stack import Wiring, initialize, make_norm
from glassformer.nn.linear import Linear
from glassformer.nn.pooling import pool


class BertConfig(EncoderConfig):
    """The shape of a BERT: an encoder and its output layer."""

    tie_weights: bool = True
    """Use the embedding matrix as the output layer."""
    has_head: bool = True
    """False: there is no output layer; the model turns texts into vectors, as those of
    sentence-transformers do."""
    pooling: Literal["mean", "first", "max"] = "mean"
    """How the vectors of a text become one, for `embed`."""
    normalize: bool = True
    """Scale the vector of a text to length 1."""
    sentence_length: Count | None = Field(None, ge=1)
    """Maximum number of tokens of a text to embed; null: context_length."""

    @model_validator(mode="after")
    def _reads_tokens(self) -> Self:
        if self.num_features is not None:
            raise ValueError("num_features must be null: a masked language model reads tokens")
        return self


class Bert(HeadedModel):
    """An encoder and a prediction for every position.

    The two are separate so that a loss can compute the logits of masked positions only.
    """

    vocabulary_layers: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        vocab_size = self.needed(config.vocab_size, "a BERT")
        self.config = config
        self.context_length = config.context_length
        self.encoder = Encoder(config)
        if not config.has_head:
            return
        self.transform = nn.Sequential(
            Linear(config.d_model, config.d_model, bias=config.bias), nn.GELU(), make_norm(config)
        )
        self.head = Linear(config.d_model, vocab_size)
        initialize(self.transform, config.initialization, config.num_layers)
        initialize(self.head, config.initialization, config.num_layers)
        if config.tie_weights:
            self.head.weight = self.encoder.get_parameter("embedding.weight")

    @property
    def device(self) -> torch.device:
        return self.token_vectors.device

    @property
    def token_vectors(self) -> Tensor:
        return self.encoder.get_parameter("embedding.weight")

    def hidden(
        self, ids: Tensor, is_text: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """The input of the prediction: (B, T) → (B, T, D)."""
        return self.encoder(ids, is_text, segments)

    def embed(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """One vector for each text: (B, T) → (B, D)."""
        return self.pooled(self.hidden(ids, is_text), is_text)

    def pooled(self, states: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Pool the states of the tokens: (B, T, D) → (B, D)."""
        vectors = pool(states, is_text, self.config.pooling)
        return F.normalize(vectors, dim=-1) if self.config.normalize else vectors

    def predict(self, hidden: Tensor) -> Tensor:
        """Logits of the token at each position: (…, D) → (…, V)."""
        if not self.config.has_head:
            raise GlassformerError(
                "this model has no output layer and predicts no words: it turns texts into "
                "vectors. Use glassformer embed."
            )
        return self.head(self.transform(hidden))

    def read_out(self, states: Tensor) -> Tensor:
        """Logits from the states after any block of the encoder: (…, D) → (…, V)."""
        return self.predict(self.encoder.final_norm(states))

    def wiring(self) -> Wiring:
        streams = (self.encoder.wired("encoder"),)
        if not self.config.has_head:
            return Wiring(streams, ("encoder.final_norm",))
        transform = (f"transform.{index}" for index in range(len(self.transform)))
        return Wiring(streams, ("encoder.final_norm", *transform, "head"))

    def forward(
        self, ids: Tensor, is_text: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Logits at every position: (B, T) → (B, T, V)."""
        return self.predict(self.hidden(ids, is_text, segments))
