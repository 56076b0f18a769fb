"""BERT: a masked language model. It predicts hidden words from the words on both sides.

    hidden = encoder(ids)                           (B, T, D)
    logits = transform(hidden) · vocabularyᵀ + b    (B, T, V)

Its encoder is then fine-tuned to classify texts or tag words: see `classifier.py`.
"""

from typing import Self

from pydantic import model_validator
from torch import Tensor, nn

from glassformer.models.encoder import Encoder, EncoderConfig
from glassformer.models.headed_model import HeadedModel
from glassformer.models.stack import initialize, make_norm
from glassformer.models.wiring import Wiring
from glassformer.nn.linear import Linear


class BertConfig(EncoderConfig):
    """The shape of a BERT: an encoder and its output layer."""

    tie_weights: bool = True
    """Use the embedding matrix as the output layer."""

    @model_validator(mode="after")
    def _reads_tokens(self) -> Self:
        if self.num_features is not None:
            raise ValueError("num_features must be null: a masked language model reads tokens")
        return self


class Bert(HeadedModel):
    """An encoder and a prediction for every position.

    The two are separate so that a loss can compute the logits of masked positions only.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        vocab_size = self.needed(config.vocab_size, "a BERT")
        self.config = config
        self.context_length = config.context_length
        self.encoder = Encoder(config)
        self.transform = nn.Sequential(
            Linear(config.d_model, config.d_model, bias=config.bias),
            nn.GELU(),
            make_norm(config),
        )
        self.head = Linear(config.d_model, vocab_size)
        initialize(self.transform, config.initialization, config.num_layers)
        initialize(self.head, config.initialization, config.num_layers)
        if config.tie_weights:
            self.head.weight = self.encoder.get_parameter("embedding.weight")

    @property
    def token_vectors(self) -> Tensor:
        return self.encoder.get_parameter("embedding.weight")

    def hidden(
        self, ids: Tensor, is_text: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """The input of the prediction: (B, T) → (B, T, D)."""
        return self.encoder(ids, is_text, segments)

    def predict(self, hidden: Tensor) -> Tensor:
        """Logits of the token at each position: (…, D) → (…, V)."""
        return self.head(self.transform(hidden))

    def read_out(self, states: Tensor) -> Tensor:
        """Logits from the states after any block of the encoder: (…, D) → (…, V)."""
        return self.predict(self.encoder.final_norm(states))

    def wiring(self) -> Wiring:
        transform = (f"transform.{place}" for place in range(len(self.transform)))
        return Wiring((self.encoder.wired("encoder"),), ("encoder.final_norm", *transform, "head"))

    def forward(
        self, ids: Tensor, is_text: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Logits at every position: (B, T) → (B, T, V)."""
        return self.predict(self.hidden(ids, is_text, segments))
