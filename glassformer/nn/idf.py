"""Inverse document frequency: the fewer texts have a token, the more it says about a text.

idf(w) = 1 + log((1 + texts) / (1 + texts with w))

h = ∑ idf(w_t) · x_t / norm         (B, D), where norm² = ∑ idf(w_t)²
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


def inverse_document_frequency(texts: Iterable[Tensor], num_tokens: int) -> Tensor:
    """(num_tokens,); each text is the ids of its tokens, repeated or not."""
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
