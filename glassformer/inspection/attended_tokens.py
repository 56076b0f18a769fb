"""How much a prediction attends to each token, and what that attention contributes to it.

    attention               mean of A over layers and heads, at the place of the prediction
    rollout                 A followed from the last layer to the first (`rollout.py`)
    attention × gradient    Σ A · ∂f/∂A over layers, heads and queries

The weights A are computed by the equation instead of the fused kernel, so that they have gradients.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.inspection.rollout import rolled_out
from glassformer.inspection.subject import CROSS, Stream, Subject
from glassformer.inspection.token_vectors import Explained, Inputs
from glassformer.nn.observe import Change, Tap, changing

Values = NDArray[np.floating[Any]]


def attended_tokens(call: Inputs, explained: Explained) -> list[dict[str, Any]]:
    """Mean attention, rollout, and attention × gradient for each prediction."""
    weights: dict[Tap, Tensor] = {}

    def keeping(tap: Tap) -> Change:
        def change(values: Tensor) -> Tensor:
            weights[tap] = values  # (1, H, T, S)
            return values

        return change

    layers = call.subject.head_groups.items()
    groups = {name: [each.tap for each in group] for name, group in layers}
    taps = [tap for group in groups.values() for tap in group]
    inputs = [x.clone().requires_grad_() for x in call.vectors]
    with torch.enable_grad(), changing({tap: keeping(tap) for tap in taps}):
        logprobs = call.logprobs(inputs)[0]  # (P, C)
    attention = {
        name: torch.cat([weights[tap].detach() for tap in group]).double().cpu().numpy()
        for name, group in groups.items()
    }  # (L, H, T, S)
    found: list[dict[str, Any]] = []
    for place, id in explained:
        gradients = torch.autograd.grad(
            logprobs[place, id],
            [weights[tap] for tap in taps],
            retain_graph=True,
            materialize_grads=True,
        )
        of_tap = dict(zip(taps, gradients, strict=True))
        heads = {
            name: torch.cat([(weights[tap].detach() * of_tap[tap]).sum(2) for tap in group])
            .double()
            .cpu()
            .numpy()
            for name, group in groups.items()
        }  # (L, H, S)
        found.append(
            {
                "attention": _joined(call.streams, _at_once(call.subject, attention, place)),
                "rollout": _joined(call.streams, _rolled_out(call.subject, attention, place)),
                "attention_gradient": _joined(
                    call.streams, {name: values.sum((0, 1)) for name, values in heads.items()}
                ),
                "heads": heads,
            }
        )
    return found


def _joined(streams: Sequence[Stream], values: dict[str, Values]) -> Values:
    """(T,) of all streams: what is known of a stream, and of the attention of another to it."""
    parts = []
    memory = streams[-1].memory
    for stream in streams:
        own = values.get(stream.name, np.zeros(len(stream.tokens)))
        parts.append(own + values[CROSS] if CROSS in values and stream.name == memory else own)
    return np.concatenate(parts)


def _rows_of(subject: Subject, place: int) -> list[int]:
    """The positions whose last states a prediction is made from."""
    if subject.predicts != "whole":
        return [place]
    positions = list(range(len(subject.streams[-1].tokens)))
    return positions if subject.read_at is None else [positions[at] for at in subject.read_at]


def _at_once(subject: Subject, attention: dict[str, Values], place: int) -> dict[str, Values]:
    """Where these positions look, on average over layers and heads; the last stream only."""
    rows, name = _rows_of(subject, place), subject.streams[-1].name
    shown = {key: attention[key] for key in (name, CROSS) if key in attention}
    return {key: weights[:, :, rows].mean((0, 1, 2)) for key, weights in shown.items()}


def _rolled_out(subject: Subject, attention: dict[str, Values], place: int) -> dict[str, Values]:
    means = {name: weights.mean(1) for name, weights in attention.items()}  # (L, T, S)
    last = subject.streams[-1]
    shares = np.zeros(len(last.tokens))
    shares[_rows_of(subject, place)] = 1 / len(_rows_of(subject, place))
    own, memory = rolled_out(shares, means[last.name], means.get(CROSS))
    found = {last.name: own}
    if memory is not None and last.memory is not None:
        within = means.get(last.memory)
        found[last.memory] = memory if within is None else rolled_out(memory, within)[0]
    return found
