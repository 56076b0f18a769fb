"""A classifier with layers and a bag of n-grams, together: "wide and deep" (Cheng et al., 2016).

    logits = a · head(dropout(represent(ids))) + b · bag(ids)        (B, C)

A bag soon knows which words matter, but not how they belong together; a Transformer or a recurrent
network can learn that, from more texts. The two learn side by side, each from its own mistakes: if
they learned from their sum, layers that know their few examples by heart would leave nothing for
the bag to learn. `a` and `b` are chosen so that the held-out labels are likeliest: a member that
adds nothing counts for nothing.

Each member is an ordinary classifier, and knows nothing of the other. Only this file knows both.
"""

from collections.abc import Callable, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.models.bag import Bag, BagConfig
from glassformer.models.heads import LabelsConfig, TextClassifier

BUCKETS_PER_WORD, MOST_BUCKETS = 16, 2**18  # a larger vocabulary comes from more text


class EnsembleConfig(LabelsConfig):
    """The labels of a text, and whether a bag helps to predict them."""

    bag: bool = False
    """Add the logits of a bag of n-grams, as `bag` computes them (not for time series)."""
    bag_ngram_weight: float = Field(0.3, ge=0, le=1)
    """How much a pair of tokens counts beside a single token in that bag; 1 when fine-tuning,
    because a pair of pieces may be a word."""


class MemberBag(Bag):
    """A bag that learns as the model `bag` does, whatever the rest of the model learns by."""

    gradient_rate = 0.4  # twice that of a bag alone: it learns by the mean of two losses


class Ensemble(TextClassifier):
    """A classifier with layers that may have a bag as a second member."""

    default_words = Bag.default_words  # a bag learns from rare words, too
    shares: Tensor
    """(2,) a and b."""

    def __init__(
        self, config: EnsembleConfig, width: int, context_length: int | None, vocab_size: int | None
    ) -> None:
        """`vocab_size` is None without a vocabulary; then there is no bag."""
        super().__init__(config, width, context_length)
        self.bag: MemberBag | None = None
        if config.bag and vocab_size is not None:
            self.bag = MemberBag(
                BagConfig(
                    vocab_size=vocab_size,
                    labels=config.labels,
                    multi_label=config.multi_label,
                    num_buckets=min(MOST_BUCKETS, BUCKETS_PER_WORD * vocab_size),
                    char_ngrams=5,
                    ngram_weight=config.bag_ngram_weight,
                    head_dropout=0.0,
                )
            )
            self.register_buffer("shares", torch.ones(2))

    def see(self, texts: Sequence[Tensor], words: Sequence[str] = ()) -> None:
        if self.bag is not None:
            self.bag.see(texts, words)

    def forward(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self.combined(self.members(ids, is_text))

    def members(self, ids: Tensor, is_text: Tensor | None = None) -> tuple[Tensor, ...]:
        """The logits (B, C) of the layers, and of the bag if there is one."""
        layers = super().forward(ids, is_text)
        return (layers,) if self.bag is None else (layers, self.bag(ids, is_text))

    def combined(self, members: Sequence[Tensor] | Tensor) -> Tensor:
        """The logits of the prediction."""
        if len(members) == 1:
            return members[0]
        return self.shares[0] * members[0] + self.shares[1] * members[1]

    def with_bag(self, layers: Tensor, ids: Tensor) -> Tensor:
        """The logits of the prediction for texts without padding, from those of the layers."""
        return layers if self.bag is None else self.combined((layers, self.bag(ids)))

    def weigh(self, weights: Sequence[float]) -> None:
        """Set `a` and `b`."""
        self.shares.copy_(torch.tensor(weights))

    def loss(
        self, ids: Tensor, is_text: Tensor | None, loss_of: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """The loss of the prediction, with the gradient of the mean loss of the members: each
        learns from its own."""
        members = self.members(ids, is_text)
        if len(members) == 1:
            return loss_of(members[0])
        mean = torch.stack([loss_of(logits) for logits in members]).mean()
        with torch.no_grad():
            together = loss_of(self.combined(members))
        return mean - mean.detach() + together  # the value of one, the gradient of the other


def has_bag(model: nn.Module) -> bool:
    """Whether a bag predicts the labels together with the layers."""
    return isinstance(model, Ensemble) and model.bag is not None
