"""A bag of n-grams beside a body: "wide and deep" (Cheng et al., 2016).

    logits = a · head(dropout(represent(ids))) + b · bag(ids)        (B, C)

A bag soon knows which words matter, but not how they belong together; a Transformer or a recurrent
network can learn that, from more texts. The two learn side by side, each from its own mistakes: if
they learned from their sum, a body that knows its few examples by heart would leave nothing for the
bag to learn. `a` and `b` are chosen so that the held-out labels are likeliest: a body that adds
nothing counts for nothing.
"""

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor

from glassformer.models.bag import Bag, BagConfig
from glassformer.models.labeller import LabelsConfig, TextClassifier

BUCKETS_PER_WORD, MOST_BUCKETS = 16, 2**18  # a larger vocabulary comes from more text


class BagBesideConfig(LabelsConfig):
    """The labels of a text, and whether a bag helps to predict them."""

    bag: bool = False
    """Add the logits of a bag of n-grams, as `bag` computes them (not for time series)."""
    bag_ngram_weight: float = Field(0.3, ge=0, le=1)
    """How much a pair of tokens counts beside a single token in that bag; 1 when fine-tuning,
    because a pair of pieces may be a word."""


class SideBag(Bag):
    """A bag that learns as the model `bag` does, whatever the rest of the model learns by."""

    gradient_rate = 0.4  # twice that of a bag alone: it learns by the mean of two losses


class ClassifierWithBag(TextClassifier):
    """A classifier that may have a bag beside its body."""

    default_words = Bag.default_words  # a bag learns from rare words, too
    shares: Tensor
    """(2,) a and b."""

    def __init__(
        self,
        config: BagBesideConfig,
        width: int,
        context_length: int | None,
        vocab_size: int | None,
    ) -> None:
        """Without a vocabulary, there are no words to put into a bag."""
        super().__init__(config, width, context_length)
        self.bag: SideBag | None = None
        if config.bag and vocab_size is not None:
            self.bag = SideBag(
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

    def opinions(self, ids: Tensor, is_text: Tensor | None = None) -> tuple[Tensor, ...]:
        return self._opinions(super().forward(ids, is_text), ids, is_text)

    def beside_bag(self, body: Tensor, ids: Tensor) -> Tensor:
        """The logits of texts without padding, from those of the body."""
        return self.combined(self._opinions(body, ids, None))

    def _opinions(self, body: Tensor, ids: Tensor, is_text: Tensor | None) -> tuple[Tensor, ...]:
        return (body,) if self.bag is None else (body, self.bag(ids, is_text))

    def forward(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self.combined(self.opinions(ids, is_text))

    def combined(self, opinions: Sequence[Tensor] | Tensor) -> Tensor:
        if len(opinions) == 1:
            return opinions[0]
        body, bag = opinions
        return self.shares[0] * body + self.shares[1] * bag

    @property
    def caveat(self) -> str:
        if self.bag is None:
            return ""
        if not self.shares[0]:
            return (
                "the label is predicted by the bag of n-grams beside the layers alone: the layers "
                "did not improve the predictions on held-out texts"
            )
        return (
            "the label is predicted by the layers and by a bag of n-grams beside them: attention "
            "shows only how the layers read the text"
        )

    def weigh(self, weights: Sequence[float]) -> None:
        if self.bag is not None:
            self.shares.copy_(torch.tensor(weights))
