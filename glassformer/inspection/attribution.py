"""Which tokens a prediction rests on: attention, and opinions that do not rest on attention.

    attention               mean of A over layers and heads, at the place of the prediction
    rollout                 A followed from the last layer to the first (`rollout.py`)
    attention × gradient    Σ A · ∂f/∂A over layers, heads and queries
    integrated gradients    (x − b) · ∫ ∂f(b + α (x − b))/∂x dα        α from 0 to 1
    left out                f(x) − f(x with b in place of this token)

f is the log-probability of the token or label that is likeliest. x are the vectors of the tokens
before the first layer, and b, the baseline, is the mean of all vectors of the vocabulary: a token
that is none in particular. Positions stay. Of an image, x are the pixels, the tokens its patches,
and b has the mean colour of the image everywhere. The integrated gradients of all tokens sum to
f(x) − f(b); how far the numerical integral is from that is its error (Sundararajan et al., 2017).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.inspection.attended_tokens import attended_tokens
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.subject import Subject
from glassformer.inspection.token_vectors import Explained, Inputs, inputs_of

Values = NDArray[np.floating[Any]]

FEWEST_STEPS, MOST_STEPS = 16, 512  # of an integral: doubled until it is exact enough
TOLERANCE = 1e-3  # of f(x) − f(b), or of one nat if that is less
METHODS = {
    "attention": "mean attention",
    "rollout": "attention rollout",
    "attention_gradient": "attention × gradient",
    "integrated_gradients": "integrated gradients",
    "left_out": "token left out",
}


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each token counts for one prediction, by each method. Values are those of the tokens
    of all streams, one stream after the other; (T,) each."""

    prediction: int
    """The number of the prediction."""
    token: str
    """What is predicted: the likeliest token or label."""
    logprob: float
    """f(x), its log-probability."""
    baseline_logprob: float
    """f(b)"""
    integrated_gradients: Values
    left_out: Values
    num_steps: int
    """Gradients in its integral."""
    attention: Values | None = None
    """None, like the next two, without layers of attention."""
    rollout: Values | None = None
    attention_gradient: Values | None = None
    heads: dict[str, Values] | None = None
    """A · ∂f/∂A of each head, summed over the queries: (layers, heads, tokens attended to), by
    stream; "cross" is the attention to the source."""

    @property
    def error(self) -> float:
        """How far the integrated gradients are from adding up to f(x) − f(b)."""
        return float(self.integrated_gradients.sum() - (self.logprob - self.baseline_logprob))

    @property
    def methods(self) -> dict[str, Values]:
        """The values by the name of their method, in the order of `METHODS`."""
        found = {name: getattr(self, name) for name in METHODS}
        return {name: values for name, values in found.items() if values is not None}

    @property
    def is_read(self) -> NDArray[np.bool_]:
        """(T,): tokens that the prediction can depend on. Those that come later have gradients of
        exactly zero."""
        return self.integrated_gradients != 0

    @property
    def correlations(self) -> dict[tuple[str, str], float | None]:
        """Rank correlation (Spearman) of each two methods: do they order the tokens alike? By size,
        without sign, since attention has none. None if there is nothing to order."""
        read = {name: np.abs(values[self.is_read]) for name, values in self.methods.items()}
        return {(a, b): rank_correlation(read[a], read[b]) for a, b in combinations(read, 2)}


def attributions(seen: Inspection, predictions: Sequence[int] | None = None) -> list[Attribution]:
    """What each of these predictions rests on (default: the one in focus). What is found for one of
    them does not depend on the others."""
    subject = seen.subject
    call = inputs_of(subject)
    places = [subject.focus] if predictions is None else list(predictions)
    places = [place % len(seen.logits) for place in places]
    with torch.no_grad():
        whole, baseline = (
            call.logprobs(each)[0] for each in (call.vectors, call.baseline)
        )  # (P, C)
    explained = [(place, int(whole[place].argmax())) for place in places]
    integrals = _integrated_gradients(call, explained, whole - baseline)
    left_out = _left_out(call, explained, whole)
    attended = attended_tokens(call, explained) if seen.has_layers else [{} for _ in explained]
    return [
        Attribution(
            prediction=place,
            token=subject.name_of(id),
            logprob=float(whole[place, id]),
            baseline_logprob=float(baseline[place, id]),
            integrated_gradients=integrals[number][0],
            left_out=left_out[number],
            num_steps=integrals[number][1],
            **attended[number] | _of_image(subject),
        )
        for number, (place, id) in enumerate(explained)
    ]


def _of_image(subject: Subject) -> dict[str, Values]:
    """The rollout of a classifier of images, which knows how its vectors are pooled."""
    picture = subject.streams[0].picture
    if subject.rollout is None or picture is None:
        return {}
    return {"rollout": np.concatenate([np.zeros(picture.num_extra), subject.rollout().ravel()])}


# --- integrated gradients ---


def _integrated_gradients(
    call: Inputs, explained: Explained, difference: Tensor
) -> list[tuple[Values, int]]:
    """(T,) for each prediction, and its number of steps. `difference` is f(x) − f(b), (P, C)."""
    found: dict[int, tuple[Values, int]] = {}
    inexact, num_steps = list(range(len(explained))), FEWEST_STEPS
    while inexact:
        integrals = _integrals(call, [explained[number] for number in inexact], num_steps)
        found |= {
            number: (values, num_steps) for number, values in zip(inexact, integrals, strict=True)
        }
        num_steps *= 2
        if num_steps > MOST_STEPS:
            break
        totals = {number: float(difference[explained[number]]) for number in inexact}
        inexact = [
            number
            for number, total in totals.items()
            if abs(found[number][0].sum() - total) > TOLERANCE * max(1.0, abs(total))
        ]
    return [found[number] for number in range(len(explained))]


def _integrals(call: Inputs, explained: Explained, num_steps: int) -> list[Values]:
    found: list[Values] = [np.zeros(call.num_tokens) for _ in explained]
    ways = [
        x - b for x, b in zip(call.vectors, call.baseline, strict=True)
    ]  # (1, T, D), or (1, C, H, W)
    alphas, shares = _nodes(num_steps)
    for rows in _parts(num_steps, call.rows_at_once()):
        alpha = torch.from_numpy(alphas[rows]).to(ways[0])  # (K,)
        alpha = alpha.reshape(-1, *(1 for _ in ways[0].shape[1:]))  # (K, 1, 1)
        share = torch.from_numpy(shares[rows]).to(ways[0].device)  # (K,)
        inputs = [
            (b + alpha * way).requires_grad_()
            for b, way in zip(call.baseline, ways, strict=True)  # (K, T, D)
        ]
        with torch.enable_grad():
            logprobs = call.logprobs(inputs)  # (K, P, C)
        for values, (place, id) in zip(found, explained, strict=True):
            gradients = torch.autograd.grad(
                (share * logprobs[:, place, id]).sum(), inputs, retain_graph=True
            )
            pairs = zip(gradients, ways, strict=True)
            values += call.by_token([gradient.double() * way for gradient, way in pairs])
    return found


def _nodes(num_steps: int) -> tuple[Values, Values]:
    """Places α between 0 and 1, and the share of each in the integral: Gauss–Legendre for α = t³.
    Near b, where vectors are short and norms enlarge them, a model changes fastest."""
    nodes, weights = np.polynomial.legendre.leggauss(num_steps)
    t = (nodes + 1) / 2
    return t**3, weights / 2 * 3 * t**2


def _parts(count: int, size: int) -> Iterator[slice]:
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


# --- leaving a token out ---


def _left_out(call: Inputs, explained: Explained, whole: Tensor) -> list[Values]:
    found: Values = np.zeros((len(explained), call.num_tokens))
    chosen = torch.tensor(explained, device=whole.device)  # (E, 2)
    kept = whole[chosen[:, 0], chosen[:, 1]]  # (E,)
    for rows in _parts(call.num_tokens, call.rows_at_once()):
        places = torch.arange(rows.start, rows.stop, device=whole.device)  # (K,)
        with torch.no_grad():
            logprobs = call.logprobs(call.without(places))[:, chosen[:, 0], chosen[:, 1]]  # (K, E)
        found[:, rows] = (kept - logprobs).T.cpu().numpy()
    return list(found)


# --- comparing ---


def rank_correlation(a: Values, b: Values) -> float | None:
    """Spearman's: 1 if both order alike, −1 if one reverses the other. None if one of them has no
    order."""
    first, second = _ranks(a), _ranks(b)
    if len(a) < 3 or not first.std() or not second.std():
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Values) -> Values:
    """From 1 for the smallest; equal values share the mean of their ranks."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Values = (counts.cumsum() - (counts - 1) / 2)[where]
    return ranks
