"""The lens: what a model would predict if it stopped after each layer.

    logits = read_out(state after layer n)          (T, V)

The states of all layers live in one space, to which each block adds a little: so the part of the
model that turns the last state into a prediction can read the earlier ones too.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.inspection.capture import Array

ReadOut = Callable[[Tensor], Tensor]


@torch.inference_mode()
def lens(
    hidden: Array, read_out: ReadOut, top: int, device: torch.device
) -> tuple[NDArray[np.int64], Array, Array]:
    """The `top` likeliest tokens after each layer, at each position, and their probabilities:
    two arrays (N + 1, T, top); and log Σ e^logit, (N + 1, T). `hidden` are the states
    (N + 1, T, D)."""
    ids, probabilities, totals = [], [], []
    for states in hidden:  # one layer at a time: (T, V) is large
        logits = read_out(torch.from_numpy(states).to(device)).float()  # (T, V)
        best, total = logits.topk(min(top, logits.size(-1))), logits.logsumexp(-1)
        ids.append(best.indices.cpu().numpy())
        probabilities.append((best.values - total[:, None]).exp().cpu().numpy())
        totals.append(total.cpu().numpy())
    return np.stack(ids), np.stack(probabilities), np.stack(totals)
