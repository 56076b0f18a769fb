"""What heads and layers contribute: the effect of each head, the prediction of each layer (the
lens), and the rules that the attention of a head follows.

    effect = KL(p with all heads ‖ p without this head)             of a prediction
    effect = 1 − cosine(v with all heads, v without this head)      of the vector of a text

    logits = read_out(state after layer n)          (T, V)          the lens
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from glassformer.inspect import Array, Flags, Ids
from glassformer.inspect.capture import WindowedLayer
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.observe import Tap, without_heads

# --- the effect of each head ---

Heads = Sequence[Sequence[tuple[Tap, list[int]]]]
"""The taps and indices to switch off, for each layer and head."""


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
    return [[(layer.tap, [head]) for head in range(layer.num_heads)] for layer in attentions]


def heads_in_windows(layers: Sequence[WindowedLayer]) -> Heads:
    """Windows are computed as further heads: a head is switched off in all of them."""
    switches = []
    for attention, grid in layers:
        num_windows, heads = len(attention.places(grid)), attention.num_heads
        switches.append(
            [
                (attention.tap, list(range(head, num_windows * heads, heads)))
                for head in range(heads)
            ]
        )
    return switches


def head_effects(
    heads: Heads, logits_of: Callable[[], Tensor], has_several_labels: bool = False
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
    layers = []
    for switches in heads:
        results = []
        for tap, places in switches:
            with without_heads({tap: places}):
                results.append(torch.stack(measure()).float().cpu().numpy())  # (results, …)
        layers.append(results)
    table = np.full((len(layers), max(map(len, layers)), *layers[0][0].shape), np.nan, np.float32)
    for layer, results in enumerate(layers):
        table[layer, : len(results)] = results
    return list(np.moveaxis(table, (0, 1), (-2, -1)))


# --- the lens ---
# The states of all layers live in one space, to which each block adds a little: so the part of the
# model that turns the last state into a prediction can read the earlier ones too.


@torch.inference_mode()
def lens(
    hidden: Array,
    read_out: Callable[[Tensor], Tensor],
    top: int,
    device: torch.device,
    has_several_labels: bool = False,
) -> tuple[Ids, Array, Array]:
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


# --- what a head attends to ---
# How much of its attention follows a simple rule:
#
#     previous token     the one before
#     itself             the one that looks
#     first token        the beginning of the text
#     after the same     what followed the same token when it occurred before (an induction head)
#     next token         the one after, unless the model is causal


@dataclass(frozen=True, eq=False)
class Pattern:
    """A rule, and how closely each head follows it."""

    name: str
    shares: Array
    """(L, H) from 0 to 1: means over the tokens for which the rule has an answer."""
    evenly: float
    """The value of the rule for a head that attends equally to everything it may see."""


def rules_for(ids: Sequence[int], is_causal: bool) -> dict[str, Flags]:
    """(T, T) for each rule: which keys it names for each query. Rules that have no answer for any
    token of the text are left out."""
    length = len(ids)
    query, key = np.arange(length)[:, None], np.arange(length)[None]
    same = np.asarray(ids)[:, None] == np.asarray(ids)[None]  # (T, T)
    after_same = np.zeros((length, length), dtype=bool)
    after_same[:, 1:] = (same & (key < query))[:, :-1]
    rules = {
        "previous token": key == query - 1,
        "itself": (key == query) & (query > 0),
        "first token": (key == 0) & (query > 1),
        "after the same token": after_same & (key < query),
    }
    if not is_causal:
        rules["next token"] = key == query + 1
    return {name: places for name, places in rules.items() if places.any()}


def head_patterns(attention: Array, ids: Sequence[int], is_causal: bool) -> list[Pattern]:
    """How closely each head follows each rule; `attention` is (L, H, T, T)."""
    length = len(ids)
    seen = np.tri(length) if is_causal else np.ones((length, length))
    evenly = seen / seen.sum(-1, keepdims=True)
    patterns = []
    for name, places in rules_for(ids, is_causal).items():
        has_answer = places.any(-1)  # (T)
        shares = (attention * places).sum(-1)[..., has_answer].mean(-1)  # (L, H)
        even = float((evenly * places).sum(-1)[has_answer].mean())
        patterns.append(Pattern(name, shares.astype(np.float32), even))
    return patterns
