"""Which tokens a prediction rests on: attention, and opinions that do not rest on attention.

    attention               mean of A over layers and heads, at the place of the prediction
    rollout                 A followed from the last layer to the first (`places.py`)
    attention × gradient    Σ A · ∂f/∂A over layers, heads and queries
    integrated gradients    (x − b) · ∫ ∂f(b + α (x − b))/∂x dα        α from 0 to 1
    left out                f(x) − f(x with b in place of this token)

f is the log-probability of the token or label that is likeliest. x are the vectors of the tokens
before the first layer, and b, the baseline, is the mean of all vectors of the vocabulary: a token
that is none in particular. Positions stay. Of an image, x are the pixels, the tokens its patches,
and b has the mean colour of the image everywhere. The integrated gradients of all tokens sum to
f(x) − f(b); how far the numerical integral is from that is its error (Sundararajan et al., 2017).

A model is asked about other inputs: `Inputs` runs it on vectors or pixels in place of its own, and
is all that the methods know of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from glassformer.errors import UsageError
from glassformer.inspect import Flags, Floats
from glassformer.inspect.inspection import CROSS, Inspection, Stream, Subject
from glassformer.inspect.places import rolled_out
from glassformer.nn.observe import Change, Tap, changing

# --- a model as a function of what its tokens are made of ---
#
#     f: (B, T, D) of each stream → log-probabilities of all predictions      (B, P, C)
#     f: (B, C, H, W)             → the same

AT_ONCE = 2048  # tokens in one pass
MEAN_VECTOR, MEAN_COLOUR = "the mean of all token vectors", "the mean colour of the image"


Explained = Sequence[tuple[int, int]]
"""Predictions and the token of each whose log-probability is explained."""


class Inputs(ABC):
    """The input of a model, and the baseline that it is compared with."""

    subject: Subject
    vectors: list[Tensor]
    """x, with one row."""
    baseline: list[Tensor]
    """b, in the same shape."""

    @property
    def num_tokens(self) -> int:
        """The number of tokens of all streams."""
        return sum(len(stream.tokens) for stream in self.subject.streams)

    @abstractmethod
    def logprobs(self, vectors: Sequence[Tensor]) -> Tensor:
        """Other inputs, of several rows → (B, P, C)."""

    @abstractmethod
    def by_token(self, values: Sequence[Tensor]) -> Floats:
        """(T,): the sum of values in the shape of the inputs, over rows and for each token."""

    @abstractmethod
    def without(self, positions: Tensor) -> list[Tensor]:
        """x with the baseline in place of one token in each row; `positions` (B,) says which."""

    def rows_at_once(self) -> int:
        return max(1, AT_ONCE // self.num_tokens)


class TokenVectors(Inputs):
    """f: the vectors of the tokens → log-probabilities."""

    def __init__(self, subject: Subject) -> None:
        streams = subject.streams
        tables = [stream.embedding.weight.detach() for stream in streams if stream.embedding]
        if subject.run_rows is None or len(tables) < len(streams):
            remarks = "".join(f" ({remark})" for remark in subject.remarks)
            raise UsageError(
                f"{subject.model} does not read tokens only as a sequence of vectors, so nothing "
                f"can be attributed to them{remarks}."
            )
        self.subject, self.run_rows = subject, subject.run_rows
        self.vectors = [
            table[stream.ids][None] for table, stream in zip(tables, streams, strict=True)
        ]  # (1, T, D) of each stream
        means = [table.double().mean(0).to(table) for table in tables]  # (D,)
        self.baseline = [
            mean.expand_as(x) for mean, x in zip(means, self.vectors, strict=True)
        ]  # (1, T, D)

    def logprobs(self, vectors: Sequence[Tensor]) -> Tensor:
        """(B, T, D) of each stream → (B, P, C)."""
        with changing(feeding(self.subject.streams, vectors)):
            logits = self.run_rows().double()
        return logsigmoid(logits) if self.subject.has_several_labels else logits.log_softmax(-1)

    def by_token(self, values: Sequence[Tensor]) -> Floats:
        return np.concatenate([of_stream.sum(dim=(0, 2)).cpu().numpy() for of_stream in values])

    def without(self, positions: Tensor) -> list[Tensor]:
        inputs, first = [], 0
        for x, b in zip(self.vectors, self.baseline, strict=True):
            indices = torch.arange(first, first + x.size(1), device=positions.device)  # (T,)
            is_left_out = (positions[:, None] == indices)[..., None]  # (B, T, 1)
            inputs.append(torch.where(is_left_out, b, x))  # (B, T, D)
            first += x.size(1)
        return inputs


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

    def by_token(self, values: Sequence[Tensor]) -> Floats:
        (of_pixels,) = values  # (B, C, H, W)
        sums = of_pixels.sum(dim=(0, 1)).double()  # (H, W)
        tokens = sums.new_zeros(self.num_tokens)
        of_tokens: Floats
        of_tokens = tokens.index_add(0, self.patch.flatten(), sums.flatten()).cpu().numpy()
        return of_tokens

    def without(self, positions: Tensor) -> list[Tensor]:
        is_left_out = self.patch == positions[:, None, None]  # (B, H, W)
        return [torch.where(is_left_out[:, None], self.baseline[0], self.vectors[0])]


def feeding(streams: Sequence[Stream], vectors: Sequence[Tensor]) -> dict[Tap, Change]:
    """Vectors (B, T, D) in place of those that a call looks up. Streams that share one table read
    from it one after the other; some models read token by token."""
    rows: dict[Tap, Tensor] = {}
    for stream, x in zip(streams, vectors, strict=True):
        if stream.embedding is None:
            raise TypeError("the stream has no table of vectors")
        tap = stream.embedding.tap
        rows[tap] = x if tap not in rows else torch.cat([rows[tap], x], dim=1)

    def reading(vectors: Tensor) -> Change:
        position = 0

        def change(looked_up: Tensor) -> Tensor:  # (1, n, D), or (1, D) for a single token
            nonlocal position
            first, is_single = position, looked_up.dim() == 2
            position += 1 if is_single else looked_up.size(1)
            return vectors[:, first] if is_single else vectors[:, first:position]

        return change

    return {tap: reading(vectors) for tap, vectors in rows.items()}


# --- attention, rollout, attention × gradient ---
# The weights A are computed by the equation instead of the fused kernel, so that they have
# gradients.


def attended_tokens(call: Inputs, explained: Explained) -> list[dict[str, Any]]:
    """Mean attention, rollout, and attention × gradient for each prediction."""
    weights: dict[Tap, Tensor] = {}

    def keeping(tap: Tap) -> Change:
        def change(values: Tensor) -> Tensor:
            weights[tap] = values  # (1, H, T, S)
            return values

        return change

    layers = call.subject.head_groups.items()
    groups = {name: [attention.tap for attention in group] for name, group in layers}
    taps = [tap for group in groups.values() for tap in group]
    inputs = [x.clone().requires_grad_() for x in call.vectors]
    with torch.enable_grad(), changing({tap: keeping(tap) for tap in taps}):
        logprobs = call.logprobs(inputs)[0]  # (P, C)
    attention = {
        name: torch.cat([weights[tap].detach() for tap in group]).double().cpu().numpy()
        for name, group in groups.items()
    }  # (L, H, T, S)
    streams = call.subject.streams
    results: list[dict[str, Any]] = []
    for number, id in explained:
        gradients = torch.autograd.grad(
            logprobs[number, id],
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
        products = {name: values.sum((0, 1)) for name, values in heads.items()}
        results.append(
            {
                "attention": _joined(streams, _at_once(call.subject, attention, number)),
                "rollout": _joined(streams, _rolled_out(call.subject, attention, number)),
                "attention_gradient": _joined(streams, products),
                "heads": heads,
            }
        )
    return results


def _joined(streams: Sequence[Stream], values: dict[str, Floats]) -> Floats:
    """(T,) of all streams: what is known of a stream, and of the attention of another to it."""
    parts = []
    memory = streams[-1].memory
    for stream in streams:
        part = values.get(stream.name, np.zeros(len(stream.tokens)))
        parts.append(part + values[CROSS] if CROSS in values and stream.name == memory else part)
    return np.concatenate(parts)


def _rows_of(subject: Subject, prediction: int) -> list[int]:
    """The positions whose last states a prediction is made from."""
    if subject.predicts != "whole":
        return [prediction]
    positions = list(range(len(subject.streams[-1].tokens)))
    return positions if subject.read_at is None else [positions[at] for at in subject.read_at]


def _at_once(subject: Subject, attention: dict[str, Floats], prediction: int) -> dict[str, Floats]:
    """The mean attention of these positions over layers and heads; the last stream only."""
    rows, name = _rows_of(subject, prediction), subject.streams[-1].name
    shown = {key: attention[key] for key in (name, CROSS) if key in attention}
    return {key: weights[:, :, rows].mean((0, 1, 2)) for key, weights in shown.items()}


def _rolled_out(
    subject: Subject, attention: dict[str, Floats], prediction: int
) -> dict[str, Floats]:
    means = {name: weights.mean(1) for name, weights in attention.items()}  # (L, T, S)
    last, rows = subject.streams[-1], _rows_of(subject, prediction)
    shares = np.zeros(len(last.tokens))
    shares[rows] = 1 / len(rows)
    own, memory = rolled_out(shares, means[last.name], means.get(CROSS))
    contributions = {last.name: own}
    if memory is not None and last.memory is not None:
        within = means.get(last.memory)
        contributions[last.memory] = memory if within is None else rolled_out(memory, within)[0]
    return contributions


# --- attribution by all methods ---

METHODS = {
    "attention": "mean attention",
    "rollout": "attention rollout",
    "attention_gradient": "attention × gradient",
    "integrated_gradients": "integrated gradients",
    "left_out": "token left out",
}


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each token counts for one prediction, by each method. Floats are those of the tokens
    of all streams, one stream after the other; (T,) each."""

    prediction: int
    """The number of the prediction."""
    token: str
    """The predicted token or label: the likeliest one."""
    logprob: float
    """f(x): the log-probability of the prediction."""
    baseline_logprob: float
    """f(b): its log-probability on the baseline."""
    integrated_gradients: Floats
    left_out: Floats
    num_steps: int
    """The number of gradients in the integral."""
    attention: Floats | None = None
    """None without layers of attention, like the next two."""
    rollout: Floats | None = None
    attention_gradient: Floats | None = None
    heads: dict[str, Floats] | None = None
    """A · ∂f/∂A of each head, summed over the queries: (layers, heads, tokens attended to), by
    stream; "cross" is the attention to the source."""

    @property
    def error(self) -> float:
        """The difference between the sum of the integrated gradients and f(x) − f(b)."""
        return float(self.integrated_gradients.sum() - (self.logprob - self.baseline_logprob))

    @property
    def methods(self) -> dict[str, Floats]:
        """The values by the name of their method, in the order of `METHODS`."""
        all_values = {name: getattr(self, name) for name in METHODS}
        return {name: values for name, values in all_values.items() if values is not None}

    @property
    def is_read(self) -> Flags:
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
    """The attribution of each of these predictions (default: the one in focus). The values of one
    do not depend on the others."""
    subject = seen.subject
    call = TokenVectors(subject) if subject.pixels is None else PixelPatches(subject)
    numbers = [subject.focus] if predictions is None else predictions
    numbers = [number % len(seen.logits) for number in numbers]
    with torch.no_grad():
        whole, baseline = call.logprobs(call.vectors)[0], call.logprobs(call.baseline)[0]  # (P, C)
    explained = [(number, int(whole[number].argmax())) for number in numbers]
    integrals = _integrated_gradients(call, explained, whole - baseline)
    left_out = _left_out(call, explained, whole)
    attended = attended_tokens(call, explained) if seen.has_layers else [{} for _ in explained]
    return [
        Attribution(
            prediction=number,
            token=subject.name_of(id),
            logprob=float(whole[number, id]),
            baseline_logprob=float(baseline[number, id]),
            integrated_gradients=values,
            left_out=without,
            num_steps=num_steps,
            **attention | _of_image(subject),
        )
        for (number, id), (values, num_steps), without, attention in zip(
            explained, integrals, left_out, attended, strict=True
        )
    ]


def _of_image(subject: Subject) -> dict[str, Floats]:
    """The rollout of a classifier of images, which knows how its vectors are pooled."""
    picture = subject.streams[0].picture
    if subject.rollout is None or picture is None:
        return {}
    return {"rollout": np.concatenate([np.zeros(picture.num_extra), subject.rollout().ravel()])}


# --- integrated gradients ---

FEWEST_STEPS, MOST_STEPS = 16, 512  # of an integral: doubled until it is exact enough
TOLERANCE = 1e-3  # of f(x) − f(b), or of one nat if that is less


def _integrated_gradients(
    call: Inputs, explained: Explained, difference: Tensor
) -> list[tuple[Floats, int]]:
    """(T,) for each prediction, and its number of steps. `difference` is f(x) − f(b), (P, C)."""
    results: dict[int, tuple[Floats, int]] = {}
    inexact, num_steps = list(range(len(explained))), FEWEST_STEPS
    while inexact:
        integrals = _integrals(call, [explained[number] for number in inexact], num_steps)
        results |= {
            number: (values, num_steps) for number, values in zip(inexact, integrals, strict=True)
        }
        num_steps *= 2
        if num_steps > MOST_STEPS:
            break
        totals = {number: float(difference[explained[number]]) for number in inexact}
        inexact = [
            number
            for number, total in totals.items()
            if abs(results[number][0].sum() - total) > TOLERANCE * max(1.0, abs(total))
        ]
    return [results[number] for number in range(len(explained))]


def _integrals(call: Inputs, explained: Explained, num_steps: int) -> list[Floats]:
    integrals: list[Floats] = [np.zeros(call.num_tokens) for _ in explained]
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
        for values, (number, id) in zip(integrals, explained, strict=True):
            gradients = torch.autograd.grad(
                (share * logprobs[:, number, id]).sum(), inputs, retain_graph=True
            )
            pairs = zip(gradients, ways, strict=True)
            values += call.by_token([gradient.double() * way for gradient, way in pairs])
    return integrals


def _nodes(num_steps: int) -> tuple[Floats, Floats]:
    """Places α between 0 and 1, and the share of each in the integral: Gauss–Legendre for α = t³.
    Near b, where vectors are short and norms enlarge them, a model changes fastest."""
    nodes, weights = np.polynomial.legendre.leggauss(num_steps)
    t = (nodes + 1) / 2
    return t**3, weights / 2 * 3 * t**2


def _parts(count: int, size: int) -> Iterator[slice]:
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


# --- leaving a token out ---


def _left_out(call: Inputs, explained: Explained, whole: Tensor) -> list[Floats]:
    differences: Floats = np.zeros((len(explained), call.num_tokens))
    at, ids = torch.tensor(explained, device=whole.device).T  # (E,)
    for rows in _parts(call.num_tokens, call.rows_at_once()):
        positions = torch.arange(rows.start, rows.stop, device=whole.device)  # (K,)
        with torch.no_grad():
            logprobs = call.logprobs(call.without(positions))[:, at, ids]  # (K, E)
        differences[:, rows] = (whole[at, ids] - logprobs).T.cpu().numpy()
    return list(differences)


# --- comparing methods ---


def rank_correlation(a: Floats, b: Floats) -> float | None:
    """Spearman's: 1 if both order alike, −1 if one reverses the other. None if one of them has no
    order."""
    first, second = _ranks(a), _ranks(b)
    if len(a) < 3 or not first.std() or not second.std():
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Floats) -> Floats:
    """The rank of each value, from 1 for the smallest; equal values share their mean rank."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (counts.cumsum() - (counts - 1) / 2)[where]
    return ranks
