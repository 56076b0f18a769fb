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
    hidden: Array,
    read_out: ReadOut,
    top: int,
    device: torch.device,
    has_several_labels: bool = False,
) -> tuple[NDArray[np.int64], Array, Array]:
    """The `top` likeliest tokens after each layer, at each position, and their probabilities:
    two arrays (N + 1, T, top); and log Σ e^logit, (N + 1, T). `hidden` are the states
    (N + 1, T, D). `read_out` may return one prediction for all positions of a layer; then T is 1.
    If any number of labels may apply, each has a probability of its own."""
    ids, probabilities, totals = [], [], []
    for states in hidden:  # one layer at a time: (T, V) is large
        logits = read_out(torch.from_numpy(states).to(device)).float()  # (T, V)
        best, total = logits.topk(min(top, logits.size(-1))), logits.logsumexp(-1)
        p = best.values.sigmoid() if has_several_labels else (best.values - total[:, None]).exp()
        ids.append(best.indices.cpu().numpy())
        probabilities.append(p.cpu().numpy())
        totals.append(total.cpu().numpy())
    return np.stack(ids), np.stack(probabilities), np.stack(totals)
