"""Pooling: one vector from the vectors of a sequence, (B, T, D) → (B, D).

pool              their mean or maximum, the first or the last
SequencePooling   a weighted mean, whose weights depend on the vectors
IdfPooling        a weighted sum, in which rare tokens count more
"""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

from glassformer.nn.linear import Linear
from glassformer.nn.observe import Tap

Pooling = Literal["mean", "max", "first", "last"]


def pool(x: Tensor, is_text: Tensor | None = None, pooling: Pooling = "mean") -> Tensor:
    """Pool the real positions of each row, which `is_text` (B, T) marks; None: all are real.

    The mean and the maximum of a row without real positions are zero.
    """
    if pooling == "first":
        return x[:, 0]
    if is_text is None:
        if pooling == "last":
            return x[:, -1]
        return x.mean(dim=1) if pooling == "mean" else x.amax(dim=1)
    if pooling == "last":  # padding is on the right
        last = (is_text.sum(dim=1) - 1).clamp(min=0)  # (B,)
        return x[torch.arange(x.size(0), device=x.device), last]
    real = is_text[..., None]  # (B, T, 1)
    if pooling == "mean":
        return x.masked_fill(~real, 0).sum(dim=1) / real.sum(dim=1).clamp(min=1)
    largest = x.masked_fill(~real, -torch.inf).amax(dim=1)
    return largest.masked_fill(~real.any(dim=1), 0)


class SequencePooling(nn.Module):
    """A weighted mean, whose weights can be observed like those of attention: (B, N, D) → (B, D).

    weights = softmax(x · w)            (B, N)
    output  = ∑ weights · x             (B, D)
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = Linear(width, 1)
        self.tap = Tap()

    def forward(self, x: Tensor) -> Tensor:
        weights = self.score(x).softmax(dim=1)  # (B, N, 1)
        if self.tap.is_listening:
            self.tap.hear(weights.squeeze(-1))  # (B, N)
        return (weights.transpose(1, 2) @ x).squeeze(1)  # (B, D)


# --- inverse document frequency: the fewer texts have a token, the more it says about a text ---
#
#     idf(w) = 1 + log((1 + texts) / (1 + texts with w))
#     h      = ∑ idf(w_t) · x_t / norm         (B, D), where norm² = ∑ idf(w_t)²


def inverse_document_frequency(texts: Iterable[Tensor], num_tokens: int) -> Tensor:
    """The idf of every token, (num_tokens,), from texts as ids of tokens, repeated or not."""
    count, total = torch.zeros(num_tokens), 0
    for ids in texts:
        count[ids.unique()] += 1
        total += 1
    return 1 + ((1 + total) / (1 + count)).log()


class IdfPooling(nn.Module):
    """One vector from those of a sequence, in which rare tokens count more than frequent ones."""

    idf: Tensor

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        self.register_buffer("idf", torch.ones(num_tokens))

    def see(self, texts: Iterable[Tensor]) -> None:
        """Count in how many texts each token occurs."""
        self.idf.copy_(inverse_document_frequency(texts, len(self.idf)))

    def forward(self, x: Tensor, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Vectors (B, T, D) of the tokens (B, T) → (B, D). `is_text` None: there is no padding."""
        return (self.weights(ids, is_text).to(x)[:, None] @ x).squeeze(1)  # (B, 1, T) · (B, T, D)

    def weights(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """How much each token counts: (B, T)."""
        weight = self.idf[ids]  # (B, T)
        if is_text is not None:
            weight = weight.masked_fill(~is_text, 0)
        return weight / weight.norm(dim=1, keepdim=True).clamp(min=1)  # 0 only if there is no token
