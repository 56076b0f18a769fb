"""Which tokens a prediction rests on: attention, and opinions that do not rest on attention.

    attention               mean of A over layers and heads, at the place of the prediction
    rollout                 A followed from the last layer to the first (`rollout.py`)
    attention × gradient    Σ A · ∂f/∂A over layers, heads and queries
    integrated gradients    (x − b) · ∫ ∂f(b + α (x − b))/∂x dα        α from 0 to 1
    left out                f(x) − f(x with b in place of this token)

f is the log-probability of the token or label that is likeliest. x are the vectors of the tokens
before the first layer, and b, the baseline, is the mean of all vectors of the vocabulary: a token
that is none in particular. Positions stay. The integrated gradients of all tokens sum to
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
from torch.nn.functional import logsigmoid

from glassformer.errors import UsageError
from glassformer.inspection.inspection import Inspection, Stream, Subject
from glassformer.inspection.rollout import rolled_out
from glassformer.nn.observe import Change, Tap, changing

Values = NDArray[np.floating[Any]]

FEWEST_STEPS, MOST_STEPS = 16, 512  # of an integral: doubled until it is exact enough
TOLERANCE = 1e-3  # of f(x) − f(b), or of one nat if that is less
AT_ONCE = 2048  # tokens in one pass
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
    """Gradients in each integral."""
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


def attributions(
    seen: Inspection, predictions: Sequence[int] | None = None, most_steps: int = MOST_STEPS
) -> list[Attribution]:
    """What each of these predictions rests on (default: the one in focus). `most_steps` limits the
    gradients in an integral."""
    subject = seen.subject
    _check(subject)
    places = [subject.focus] if predictions is None else list(predictions)
    places = [place % len(seen.logits) for place in places]
    call = _Call(subject)
    with torch.no_grad():
        whole, baseline = (
            call.logprobs(each)[0] for each in (call.vectors, call.baseline)
        )  # (P, C)
    explained = [(place, int(whole[place].argmax())) for place in places]
    gradients, num_steps = _integrated_gradients(call, explained, whole - baseline, most_steps)
    left_out = _left_out(call, explained, whole)
    attended = _attention(call, explained) if seen.has_layers else [{} for _ in explained]
    return [
        Attribution(
            prediction=place,
            token=subject.name_of(id),
            logprob=float(whole[place, id]),
            baseline_logprob=float(baseline[place, id]),
            integrated_gradients=gradients[number],
            left_out=left_out[number],
            num_steps=num_steps,
            **attended[number],
        )
        for number, (place, id) in enumerate(explained)
    ]


def _check(subject: Subject) -> None:
    has_vectors = all(stream.embedding is not None for stream in subject.streams)
    if subject.run_rows is None or not has_vectors:
        raise UsageError(
            f"{subject.model} does not read tokens as a sequence of vectors, so nothing can be "
            "attributed to them."
        )


# --- the model as a function of the vectors of its tokens ---


class _Call:
    """f: the vectors of the tokens → log-probabilities."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.streams = subject.streams
        tables = [stream.embedding.weight.detach() for stream in self.streams if stream.embedding]
        self.vectors = [
            table[stream.ids][None] for table, stream in zip(tables, self.streams, strict=True)
        ]  # (1, T, D) of each stream
        means = [table.double().mean(0).to(table) for table in tables]  # (D,)
        self.baseline = [
            mean.expand_as(x) for mean, x in zip(means, self.vectors, strict=True)
        ]  # (1, T, D)
        self.num_tokens = sum(len(stream.ids) for stream in self.streams)

    def logprobs(self, vectors: Sequence[Tensor]) -> Tensor:
        """(B, T, D) of each stream → (B, P, C)."""
        if self.subject.run_rows is None:
            raise TypeError("the subject cannot run several rows")
        with changing(_feeding(self.streams, vectors)):
            logits = self.subject.run_rows().double()
        return logsigmoid(logits) if self.subject.has_several_labels else logits.log_softmax(-1)

    def rows_at_once(self) -> int:
        return max(1, AT_ONCE // self.num_tokens)


def _feeding(streams: Sequence[Stream], vectors: Sequence[Tensor]) -> dict[Tap, Change]:
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


Explained = Sequence[tuple[int, int]]
"""Predictions and the token of each whose log-probability is explained."""


# --- integrated gradients ---


def _integrated_gradients(
    call: _Call, explained: Explained, difference: Tensor, most_steps: int
) -> tuple[list[Values], int]:
    """(T,) for each prediction, and the number of steps. `difference` is f(x) − f(b), (P, C)."""
    num_steps = FEWEST_STEPS
    while True:
        found = _integrals(call, explained, num_steps)
        gaps = [
            abs(values.sum() - total) / max(1.0, abs(total))
            for values, (place, id) in zip(found, explained, strict=True)
            for total in [float(difference[place, id])]
        ]
        if max(gaps) <= TOLERANCE or num_steps >= most_steps:
            return found, num_steps
        num_steps *= 2


def _integrals(call: _Call, explained: Explained, num_steps: int) -> list[Values]:
    found = [np.zeros(call.num_tokens) for _ in explained]
    pairs = zip(call.vectors, call.baseline, strict=True)
    ways = [x - b for x, b in pairs]  # (1, T, D)
    alphas, shares = _nodes(num_steps)
    for rows in _parts(num_steps, call.rows_at_once()):
        alpha = torch.from_numpy(alphas[rows]).to(ways[0])[:, None, None]  # (K, 1, 1)
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
            parts = [
                (gradient.double() * way).sum(dim=(0, 2)).cpu().numpy()  # (T,)
                for gradient, way in zip(gradients, ways, strict=True)
            ]
            values += np.concatenate(parts)
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


def _left_out(call: _Call, explained: Explained, whole: Tensor) -> list[Values]:
    found = np.zeros((len(explained), call.num_tokens))
    chosen = torch.tensor(explained, device=whole.device)  # (E, 2)
    kept = whole[chosen[:, 0], chosen[:, 1]]  # (E,)
    for rows in _parts(call.num_tokens, call.rows_at_once()):
        inputs, first = [], 0
        places = torch.arange(rows.start, rows.stop, device=whole.device)  # (K,)
        for x, b in zip(call.vectors, call.baseline, strict=True):
            own = torch.arange(first, first + x.size(1), device=whole.device)  # (T,)
            is_left_out = (places[:, None] == own)[..., None]  # (K, T, 1)
            inputs.append(torch.where(is_left_out, b, x))  # (K, T, D)
            first += x.size(1)
        with torch.no_grad():
            logprobs = call.logprobs(inputs)[:, chosen[:, 0], chosen[:, 1]]  # (K, E)
        found[:, rows] = (kept - logprobs).T.cpu().numpy()
    return list(found)


# --- attention ---


def _attention(call: _Call, explained: Explained) -> list[dict[str, Any]]:
    """Mean attention, rollout, and attention × gradient for each prediction."""
    weights: dict[Tap, Tensor] = {}

    def keeping(tap: Tap) -> Change:
        def change(values: Tensor) -> Tensor:
            weights[tap] = values  # (1, H, T, S)
            return values

        return change

    groups = _groups(call.streams)
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


CROSS = "cross"


def _groups(streams: Sequence[Stream]) -> dict[str, list[Tap]]:
    """The taps of the attention within each stream, by its name, and to another one."""
    found: dict[str, list[Tap]] = {}
    for stream in streams:
        if stream.stack is not None:
            found[stream.name] = [each.tap for each in stream.stack.attentions]
            if stream.stack.cross_attentions:
                found[CROSS] = [each.tap for each in stream.stack.cross_attentions]
    return found


def _joined(streams: Sequence[Stream], values: dict[str, Values]) -> Values:
    """(T,) of all streams: what is known of a stream, and of the attention of another to it."""
    parts = []
    memory = streams[-1].memory
    for stream in streams:
        own = values.get(stream.name, np.zeros(len(stream.ids)))
        parts.append(own + values[CROSS] if CROSS in values and stream.name == memory else own)
    return np.concatenate(parts)


def _rows_of(subject: Subject, place: int) -> list[int]:
    """The positions whose last states a prediction is made from."""
    if subject.predicts != "whole":
        return [place]
    positions = list(range(len(subject.streams[-1].ids)))
    return positions if subject.read_at is None else [positions[at] for at in subject.read_at]


def _at_once(subject: Subject, attention: dict[str, Values], place: int) -> dict[str, Values]:
    """Where these positions look, on average over layers and heads; the last stream only."""
    rows, name = _rows_of(subject, place), subject.streams[-1].name
    shown = {key: attention[key] for key in (name, CROSS) if key in attention}
    return {key: weights[:, :, rows].mean((0, 1, 2)) for key, weights in shown.items()}


def _rolled_out(subject: Subject, attention: dict[str, Values], place: int) -> dict[str, Values]:
    means = {name: weights.mean(1) for name, weights in attention.items()}  # (L, T, S)
    last = subject.streams[-1]
    shares = np.zeros(len(last.ids))
    shares[_rows_of(subject, place)] = 1 / len(_rows_of(subject, place))
    own, memory = rolled_out(shares, means[last.name], means.get(CROSS))
    found = {last.name: own}
    if memory is not None and last.memory is not None:
        within = means.get(last.memory)
        found[last.memory] = memory if within is None else rolled_out(memory, within)[0]
    return found


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
