"""Masks: who may look at whom. True means "may attend", and masks combine with `&`.

No row is ever all False: a softmax over nothing would be NaN. Where a query has nothing left to
look at (it is padding itself), it looks at itself, and nobody reads what it says.
"""

import torch
from torch import Tensor


def causal(num_queries: int, num_keys: int, device: torch.device | None = None) -> Tensor:
    """(T, S): the last query is the last key; each query sees its own position and the past."""
    query = torch.arange(num_keys - num_queries, num_keys, device=device)
    key = torch.arange(num_keys, device=device)
    return key <= query[:, None]


def left_padded(padding: Tensor, num_queries: int, num_keys: int) -> Tensor:
    """(B, 1, T, S) causal mask for rows whose first `padding[b]` keys are not text."""
    query = torch.arange(num_keys - num_queries, num_keys, device=padding.device)[:, None]
    key = torch.arange(num_keys, device=padding.device)
    is_text = key >= padding[:, None, None, None]  # (B, 1, 1, S)
    return (is_text & (key <= query)) | (key == query)


def padding_keys(is_text: Tensor) -> Tensor:
    """(B, 1, S, S) mask of an encoder: all see the text; padding also sees itself.

    `is_text` is (B, S), True for real tokens.
    """
    itself = torch.eye(is_text.size(1), dtype=torch.bool, device=is_text.device)
    return is_text[:, None, None, :] | itself
