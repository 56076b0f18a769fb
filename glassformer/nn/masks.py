"""Attention masks: True means "may attend", and masks combine with `&`.

No row is ever all False, because a softmax over nothing would be NaN. A query that is padding
attends to itself, and its output is not used.
"""

import torch
from torch import Tensor


def causal(num_queries: int, num_keys: int, device: torch.device | None = None) -> Tensor:
    """(T, S): each query sees its own position and the past; the last query is the last key."""
    key = torch.arange(num_keys, device=device)
    return key <= key[num_keys - num_queries :, None]


def left_padded(padding: Tensor, num_queries: int, num_keys: int) -> Tensor:
    """(B, 1, T, S) causal mask for rows whose first `padding[b]` keys are padding."""
    key = torch.arange(num_keys, device=padding.device)
    query = key[num_keys - num_queries :, None]
    is_text = key >= padding[:, None, None, None]  # (B, 1, 1, S)
    return (is_text & (key <= query)) | (key == query)


def padding_keys(is_text: Tensor) -> Tensor:
    """(B, 1, S, S) mask of an encoder: all positions see the text; padding also sees itself.

    `is_text` is (B, S), True for real tokens.
    """
    itself = torch.eye(is_text.size(1), dtype=torch.bool, device=is_text.device)
    return is_text[:, None, None, :] | itself


def if_padded(is_text: Tensor | None) -> Tensor | None:
    """`is_text`, or None if there is no padding: without a mask, kernels are faster. In a graph
    that is exported, there may be padding."""
    if is_text is None or torch.compiler.is_exporting() or not is_text.all():
        return is_text
    return None
