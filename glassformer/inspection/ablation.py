"""How much each head matters: switch it off and watch the output change.

effect = KL(p with all heads ‖ p without this head)             of a prediction
effect = 1 − cosine(v with all heads, v without this head)      of the vector of a text
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from glassformer.inspection.capture import Array
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.observe import Tap, without_heads
from glassformer.nn.patches import Grid
from glassformer.nn.windows import WindowAttention

Heads = Sequence[Sequence[tuple[Tap, list[int]]]]
"""For each layer and head, what has to be switched off."""


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """What a prediction, or the vector of a text, loses with each head."""

    divergence: Array
    """(…, N, H) KL divergence of the prediction without the head, in nats, or the cosine distance
    of the vector; 0: it changes nothing. NaN where a layer has fewer heads than others."""
    change: Array | None = None
    """(…, N, H) change of the log-probability of the token that all heads together find likeliest;
    None for a vector."""


def heads_of(attentions: Sequence[MultiHeadAttention]) -> Heads:
    return [[(each.tap, [head]) for head in range(each.num_heads)] for each in attentions]


def heads_in_windows(layers: Sequence[tuple[WindowAttention, Grid]]) -> Heads:
    """Windows are computed as further heads: a head is switched off in all of them."""
    found = []
    for attention, grid in layers:
        count, heads = len(attention.places(grid)), attention.num_heads
        found.append(
            [(attention.tap, list(range(head, count * heads, heads))) for head in range(heads)]
        )
    return found


def head_effects(
    heads: Heads,
    logits_of: Callable[[], Tensor],
    has_several_labels: bool = False,
) -> HeadEffects:
    """`logits_of` computes one prediction (V,), or several (…, V), by running the model. If any
    number of labels may apply, it is a yes/no decision for each, and their divergences add up."""

    def logprobs() -> Tensor:
        with torch.inference_mode():
            logits = logits_of().double()
        if has_several_labels:
            return torch.cat([logsigmoid(logits), logsigmoid(-logits)], -1)  # (…, 2V) yes, then no
        return logits.log_softmax(-1)  # (…, V)

    whole = logprobs()
    options = whole.chunk(2, -1)[0] if has_several_labels else whole
    best = options.argmax(-1, keepdim=True)  # (…, 1)
    shares, is_possible = whole.exp(), ~whole.isneginf()

    def compared(without: Tensor) -> tuple[Tensor, Tensor]:
        # A token with probability 0 contributes nothing, whatever its logarithms are.
        gap = torch.where(is_possible, shares * (whole - without), 0.0)
        change = without.gather(-1, best) - whole.gather(-1, best)
        return gap.sum(-1).clamp(min=0), change.squeeze(-1)

    divergence, change = _without_each(heads, lambda: compared(logprobs()))
    return HeadEffects(divergence, change)


def vector_effects(heads: Heads, vector_of: Callable[[], Tensor]) -> HeadEffects:
    """`vector_of` computes the vector of a text (D,) by running the model."""

    def unit() -> Tensor:
        with torch.inference_mode():
            return normalize(vector_of().double(), dim=-1)

    whole = unit()
    # |a − b|² / 2 = 1 − a · b, without losing what is small
    (distance,) = _without_each(heads, lambda: ((unit() - whole).square().sum() / 2,))
    return HeadEffects(distance)


def _without_each(heads: Heads, measure: Callable[[], tuple[Tensor, ...]]) -> list[Array]:
    """(…, N, H) of each result (…) that is measured with one head switched off."""
    rows = []
    for switches in heads:
        found = []
        for tap, places in switches:
            with without_heads({tap: places}):
                found.append(torch.stack(measure()).float().cpu().numpy())  # (results, …)
        rows.append(found)
    table = np.full((len(rows), max(map(len, rows)), *rows[0][0].shape), np.nan, np.float32)
    for layer, found in enumerate(rows):
        table[layer, : len(found)] = found
    return list(np.moveaxis(table, (0, 1), (-2, -1)))
