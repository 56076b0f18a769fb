"""How much each head matters: switch it off and watch the prediction change.

effect = KL(p with all heads ‖ p without this head)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from glassformer.inspection.capture import Array
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.observe import Tap, without_heads
from glassformer.nn.patches import Grid
from glassformer.nn.windows import WindowAttention

Heads = Sequence[Sequence[tuple[Tap, list[int]]]]
"""For each layer and head, what has to be switched off."""


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """What a prediction loses with each head."""

    divergence: Array
    """(N, H) KL divergence of the prediction without the head, in nats; 0: it changes nothing. NaN
    where a layer has fewer heads than others."""
    change: Array
    """(N, H) change of the log-probability of the token that all heads together find likeliest."""


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


@torch.inference_mode()
def head_effects(
    heads: Heads,
    logits_of: Callable[[], Tensor],
    has_several_labels: bool = False,
) -> HeadEffects:
    """`logits_of` computes one prediction (V,) by running the model. If any number of labels may
    apply, it is a yes/no decision for each, and their divergences add up."""

    def logprobs() -> Tensor:
        logits = logits_of().double()
        if has_several_labels:
            return torch.cat([logsigmoid(logits), logsigmoid(-logits)])  # (2V,) yes, then no
        return logits.log_softmax(-1)  # (V,)

    whole = logprobs()
    best = (whole.chunk(2)[0] if has_several_labels else whole).argmax()
    shape = (len(heads), max(map(len, heads)))
    divergence, change = np.full((2, *shape), np.nan, np.float32)
    for layer, switches in enumerate(heads):
        for head, (tap, places) in enumerate(switches):
            with without_heads({tap: places}):
                without = logprobs()
            # A token with probability 0 contributes nothing, whatever its logarithms are.
            gap = torch.where(whole.isneginf(), 0.0, whole.exp() * (whole - without))
            divergence[layer, head] = gap.sum().clamp(min=0)
            change[layer, head] = without[best] - whole[best]
    return HeadEffects(divergence, change)
