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

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

from glassformer.errors import UsageError
from glassformer.inspect.inspection import CROSS, Inspection, Stream, Subject
from glassformer.inspect.places import rolled_out
from glassformer.nn.observe import Change, Tap, changing

# --- token vectors ---
# A model as a function of what its tokens are made of: their vectors before the first layer, or
# the pixels of an image.
#
#     f: (B, T, D) of each stream → log-probabilities of all predictions      (B, P, C)
#     f: (B, C, H, W)             → the same
#
# Vectors that are put in place of those that the model looks up let it be asked what it would
# predict
# for something between two tokens, or for no token in particular.

AT_ONCE = 2048  # tokens in one pass

Explained = Sequence[tuple[int, int]]
"""Predictions and the token of each whose log-probability is explained."""


class Inputs(ABC):
    """What a model reads, and what stands for nothing in particular."""

    subject: Subject
    vectors: list[Tensor]
    """x, with one row."""
    baseline: list[Tensor]
    """b, in the same shape."""

    @property
    def streams(self) -> Sequence[Stream]:
        return self.subject.streams

    @property
    def num_tokens(self) -> int:
        """Of all streams."""
        return sum(len(stream.tokens) for stream in self.streams)

    @abstractmethod
    def logprobs(self, vectors: Sequence[Tensor]) -> Tensor:
        """Other inputs, of several rows → (B, P, C)."""

    @abstractmethod
    def by_token(self, values: Sequence[Tensor]) -> NDArray[np.floating[Any]]:
        """(T,): the sum of values in the shape of the inputs, over rows and for each token."""

    @abstractmethod
    def without(self, places: Tensor) -> list[Tensor]:
        """x with the baseline in place of one token in each row; `places` (B,) says which."""

    def rows_at_once(self) -> int:
        return max(1, AT_ONCE // self.num_tokens)


class TokenVectors(Inputs):
    """f: the vectors of the tokens → log-probabilities."""

    def __init__(self, subject: Subject) -> None:
        _check(subject)
        self.subject = subject
        tables = [stream.embedding.weight.detach() for stream in self.streams if stream.embedding]
        self.vectors = [
            table[stream.ids][None] for table, stream in zip(tables, self.streams, strict=True)
        ]  # (1, T, D) of each stream
        means = [table.double().mean(0).to(table) for table in tables]  # (D,)
        self.baseline = [
            mean.expand_as(x) for mean, x in zip(means, self.vectors, strict=True)
        ]  # (1, T, D)

    def logprobs(self, vectors: Sequence[Tensor]) -> Tensor:
        """(B, T, D) of each stream → (B, P, C)."""
        if self.subject.run_rows is None:
            raise TypeError("the subject cannot run several rows")
        with changing(feeding(self.streams, vectors)):
            logits = self.subject.run_rows().double()
        return logsigmoid(logits) if self.subject.has_several_labels else logits.log_softmax(-1)

    def by_token(self, values: Sequence[Tensor]) -> NDArray[np.floating[Any]]:
        return np.concatenate([each.sum(dim=(0, 2)).cpu().numpy() for each in values])

    def without(self, places: Tensor) -> list[Tensor]:
        found, first = [], 0
        for x, b in zip(self.vectors, self.baseline, strict=True):
            own = torch.arange(first, first + x.size(1), device=places.device)  # (T,)
            is_left_out = (places[:, None] == own)[..., None]  # (B, T, 1)
            found.append(torch.where(is_left_out, b, x))  # (B, T, D)
            first += x.size(1)
        return found


class PixelPatches(Inputs):
    """f: the pixels of an image → log-probabilities. A token is a patch of them; what a model has
    written about the image stays as it is. The baseline has the mean colour everywhere."""

    def __init__(self, subject: Subject) -> None:
        picture = subject.streams[0].picture
        if subject.pixels is None or picture is None:
            raise TypeError("the subject has no image")
        self.subject, self.input = subject, subject.pixels
        image = self.input.values  # (1, C, H, W)
        self.vectors = [image]
        self.baseline = [image.mean(dim=(2, 3), keepdim=True).expand_as(image)]
        rows, columns = (
            torch.arange(side, device=image.device) * count // side
            for side, count in zip(image.shape[2:], picture.grid, strict=True)
        )
        self.patch = picture.num_extra + rows[:, None] * picture.grid[1] + columns  # (H, W)

    def logprobs(self, vectors: Sequence[Tensor]) -> Tensor:
        (images,) = vectors
        return self.input.run(images).double().log_softmax(-1)

    def by_token(self, values: Sequence[Tensor]) -> NDArray[np.floating[Any]]:
        (of_pixels,) = values  # (B, C, H, W)
        sums = of_pixels.sum(dim=(0, 1)).double()  # (H, W)
        found = sums.new_zeros(self.num_tokens)
        tokens: NDArray[np.floating[Any]]
        tokens = found.index_add(0, self.patch.flatten(), sums.flatten()).cpu().numpy()
        return tokens

    def without(self, places: Tensor) -> list[Tensor]:
        is_left_out = self.patch == places[:, None, None]  # (B, H, W)
        return [torch.where(is_left_out[:, None], self.baseline[0], self.vectors[0])]


def inputs_of(subject: Subject) -> Inputs:
    return TokenVectors(subject) if subject.pixels is None else PixelPatches(subject)


def feeding(streams: Sequence[Stream], vectors: Sequence[Tensor]) -> dict[Tap, Change]:
    """Vectors (B, T, D) in place of those that a call looks up. Streams that share one table read
    from it one after the other; some models read token by token."""
    rows: dict[Tap, Tensor] = {}
    for stream, own in zip(streams, vectors, strict=True):
        if stream.embedding is None:
            raise TypeError("the stream has no table of vectors")
        tap = stream.embedding.tap
        rows[tap] = own if tap not in rows else torch.cat([rows[tap], own], dim=1)

    def change_of(given: Tensor) -> Change:
        place = 0

        def change(looked_up: Tensor) -> Tensor:  # (1, n, D), or (1, D) for a single token
            nonlocal place
            first, is_single = place, looked_up.dim() == 2
            place += 1 if is_single else looked_up.size(1)
            return given[:, first] if is_single else given[:, first:place]

        return change

    return {tap: change_of(given) for tap, given in rows.items()}


def _check(subject: Subject) -> None:
    has_vectors = all(stream.embedding is not None for stream in subject.streams)
    if subject.run_rows is None or not has_vectors:
        raise UsageError(
            f"{subject.model} does not read tokens only as a sequence of vectors, so nothing can "
            f"be attributed to them{''.join(f' ({each})' for each in subject.remarks)}."
        )


# --- attended tokens ---
# How much a prediction attends to each token, and what that attention contributes to it.
#
#     attention               mean of A over layers and heads, at the place of the prediction
#     rollout                 A followed from the last layer to the first (`rollout.py`)
#     attention × gradient    Σ A · ∂f/∂A over layers, heads and queries
#
# The weights A are computed by the equation instead of the fused kernel, so that they have
# gradients.

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


# --- attribution ---

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
