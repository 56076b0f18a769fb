"""How much each head matters: switch it off and watch the prediction change.

effect = KL(p with all heads ‖ p without this head)
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from glassformer.inspection.capture import Array
from glassformer.nn.blocks import Stack
from glassformer.nn.observe import without_heads


@dataclass(frozen=True, eq=False)
class HeadEffects:
    """What a prediction loses with each head."""

    divergence: Array
    """(N, H) KL divergence of the prediction without the head, in nats; 0: it changes nothing."""
    change: Array
    """(N, H) change of the log-probability of the token that all heads together find likeliest."""


@torch.inference_mode()
def head_effects(
    stack: Stack, logits_of: Callable[[], Tensor], has_several_labels: bool = False
) -> HeadEffects:
    """`logits_of` computes one prediction (V,) by running the stack. If any number of labels may
    apply, it is a yes/no decision for each, and their divergences add up."""

    def logprobs() -> Tensor:
        logits = logits_of().double()
        if has_several_labels:
            return torch.cat([logsigmoid(logits), logsigmoid(-logits)])  # (2V,) yes, then no
        return logits.log_softmax(-1)  # (V,)

    whole = logprobs()
    best = (whole.chunk(2)[0] if has_several_labels else whole).argmax()
    shape = (len(stack), stack.attentions[0].num_heads)
    divergence, change = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for layer, attention in enumerate(stack.attentions):
        for head in range(shape[1]):
            with without_heads({attention.tap: [head]}):
                without = logprobs()
            # A token with probability 0 contributes nothing, whatever its logarithms are.
            gap = torch.where(whole.isneginf(), 0.0, whole.exp() * (whole - without))
            divergence[layer, head] = gap.sum().clamp(min=0)
            change[layer, head] = without[best] - whole[best]
    return HeadEffects(divergence, change)
