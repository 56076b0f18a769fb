"""The losses of the lectures. What training makes small is a mean of −log p:

    next token      −log p(target) at every position            GPT, BERT, translators
    labels          −log p(label | input) of every example      classifiers, taggers
    word vectors    −log σ(v_c · u_o) − k · mean over random words r of log σ(−v_c · u_r)

Label smoothing ε makes 1 − ε the goal for the target; all tokens, or all labels, share ε:

    loss = (1 − ε) · −log p(target) + ε · mean over all tokens of −log p(token)
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.nn.int8 import QuantizedLinear
from glassformer.nn.linear import learns_by_onednn, linear

# --- labels, and word vectors ---


def label_loss(
    logits: Tensor, targets: Tensor, weights: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """Cross-entropy of logits (N, C) against labels (N,), several labels as 0 and 1 (N, C), or the
    shares of labels in mixed images (N, C). `weights` (C,) let rare labels count more."""
    if targets.dim() == 2 and not targets.is_floating_point():  # a choice of two: yes or no
        goal = targets.to(logits.dtype) * (1 - smoothing) + smoothing / 2
        return F.binary_cross_entropy_with_logits(logits, goal, pos_weight=weights)
    return F.cross_entropy(logits, targets, weights, label_smoothing=smoothing)


def negative_sampling_loss(
    scores: Tensor, weights: Tensor, random: Tensor, num_negatives: int
) -> Tensor:
    """The mean over pairs of a word c and a neighbour o: their scores v_c · u_o and weights, both
    (B, T, T); the scores v_c · u_r with random words (B, T, K), each pair counting k of these.
    Vectors of zeros have a loss of (k + 1) · ln 2."""
    near = (weights * F.softplus(-scores)).sum()  # softplus(−x) = −log σ(x)
    far = (weights.sum(-1) * F.softplus(random).mean(-1)).sum()
    return (near + num_negatives * far) / weights.sum().clamp(min=1e-9)


# --- the next token, without ever holding all the logits in memory ---
#
# With 50,000 tokens in the vocabulary, the logits of one batch are larger than the model. So they
# are computed in chunks of rows: each chunk's loss and gradient are computed, then its logits are
# freed.

CHUNK = 2**22  # logits held at a time: 16 MB


def next_token_loss(
    hidden: Tensor, head: nn.Linear | QuantizedLinear, targets: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Mean of -log p(target) over all positions: hidden (…, D), targets (…)."""
    hidden, targets = hidden.flatten(0, -2), targets.flatten()
    rows = max(1, CHUNK // head.out_features)
    if len(targets) <= rows:
        return F.cross_entropy(head(hidden).float(), targets, label_smoothing=smoothing)
    if isinstance(head, QuantizedLinear):  # it has no weights for a gradient
        parts = zip(hidden.split(rows), targets.split(rows), strict=True)
        losses = [
            F.cross_entropy(head(part), target, label_smoothing=smoothing, reduction="sum")
            for part, target in parts
        ]
        return torch.stack(losses).sum() / len(targets)
    learning = torch.is_grad_enabled()  # asked here: inside a Function it is always off
    total: Tensor = _Chunked.apply(  # type: ignore[no-untyped-call]
        hidden, head.weight, head.bias, targets, rows, learning, smoothing
    )
    return total / len(targets)


class _Chunked(torch.autograd.Function):
    """Sum of the losses. The gradients are computed in the forward pass, while the logits exist."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        rows: int,
        learning: bool,
        smoothing: float,
    ) -> Tensor:
        wanted = learning and any(ctx.needs_input_grad)
        times = linear if learns_by_onednn() else F.linear  # a bᵀ
        total = torch.zeros((), device=hidden.device)
        grad_hidden = torch.empty_like(hidden) if wanted else None
        grad_weight = torch.zeros_like(weight) if wanted else None
        grad_bias = torch.zeros_like(bias) if wanted and bias is not None else None
        for start in range(0, len(targets), rows):
            part, target = hidden[start : start + rows], targets[start : start + rows, None]
            logits = times(part, weight, bias).float()  # (rows, V)
            log_total = logits.logsumexp(-1, keepdim=True)
            total += (log_total - (1 - smoothing) * logits.gather(1, target)).sum()
            if smoothing:
                total -= smoothing * logits.mean(-1).sum()
            if grad_hidden is None or grad_weight is None:
                continue
            grad = logits.sub_(log_total).exp_()  # p - what it should be: the softmax's gradient
            grad.scatter_add_(1, target, grad.new_full(target.shape, smoothing - 1))
            if smoothing:
                grad -= smoothing / logits.size(-1)
            grad = grad.to(part.dtype)
            grad_hidden[start : start + rows] = times(grad, weight.to(part.dtype).T, None)
            grad_weight += times(grad.T, part.T, None)
            if grad_bias is not None:
                grad_bias += grad.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        grads = (None if grad is None else grad * upstream[0] for grad in ctx.saved_tensors)
        return (*grads, None, None, None, None)
