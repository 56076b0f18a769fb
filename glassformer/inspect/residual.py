"""What each part of a model adds to the vector of a token, and through it to a logit.

    x     = embedding + position + attention 0 + feed-forward 0 + attention 1 + …
    logit = W norm(x) + b

A norm divides by the scale of its input: σ, or the root mean square. With this scale held as it is,
a norm is linear, and a logit is the sum of what the parts add to it (direct logit attribution, with
post-norm as with pre-norm blocks). The direction of a logit is followed back through the norms, the
vector of a hidden unit forward.

This is for pages without the model in them; `static/live/residual.js` computes the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.inspect.inspection import Inspection, LinearReadOut, position_vectors
from glassformer.inspect.story_data import packed
from glassformer.nn.blocks import Block
from glassformer.nn.layers import RMSNorm

MOST_UNITS = 400_000  # numbers before the activation, up to which those of all tokens are carried
MOST_DIRECTIONS = 20_000_000  # numbers, up to which all predictions are taken apart
SHOWN_UNITS = 12  # of a layer at a token
SHOWN_TOKENS = 5  # that a unit makes likelier, and as many that it makes less likely


# --- how a model reads out its last states ---


def linear_read_out(model: Any, ids: Tensor | None = None) -> LinearReadOut | str:
    """How a model with a wiring computes its logits, for a text of these ids; why not by a sum."""
    if not hasattr(model, "wiring"):
        return ""
    wiring = model.wiring()
    final_norm = wiring.streams[-1].final_norm
    if [name for name in wiring.read_out if name != final_norm] != ["head"]:
        return "a layer that is not linear comes between the last block and the output layer"
    if wiring.pooling == "max":
        return "max pooling, which is not linear, comes before the output layer"

    def shares(states: Tensor) -> Tensor:
        match wiring.pooling:
            case "mean":
                return torch.full_like(states[:, 0], 1 / len(states))
            case "first" | "last":
                at = torch.zeros_like(states[:, 0])
                at[0 if wiring.pooling == "first" else -1] = 1
                return at
        weights: Tensor = model.get_submodule(wiring.pooling).weights(cast(Tensor, ids)[None])[0]
        return weights

    norm, temperature = model.get_submodule(final_norm), float(getattr(model, "temperature", 1.0))
    return LinearReadOut(norm, model.head, temperature, shares if wiring.pooling else None)


# --- the vectors of all tokens, part by part ---


@dataclass(frozen=True, eq=False)
class Addition:
    """What a part adds to the vectors of all tokens."""

    kind: str
    """embedding, position, attention, cross_attention or feedforward."""
    layer: int | None
    vectors: Tensor
    """(T, D), in double precision, as all that follows from it."""
    length: Tensor
    """(T,)"""
    cosine: Tensor
    """(T,): its direction relative to the vector that it is added to; 0 for the first."""
    after: Tensor
    """(T,): the length of the sum."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """A norm whose scale is held: y = (x - mean(x)) · factor · weight + bias, or no mean."""

    factor: Tensor
    """(T, 1)"""
    weight: Tensor
    bias: Tensor
    is_centred: bool

    def forward(self, vectors: Tensor, tokens: Sequence[int]) -> Tensor:
        """What becomes of vectors (T', …, D) that are parts of x at some tokens."""
        if self.is_centred:
            vectors = vectors - vectors.mean(-1, keepdim=True)
        factor = self.factor[list(tokens)].view(-1, *[1] * (vectors.dim() - 1))
        return vectors * factor * self.weight

    def backward(self, direction: Tensor, tokens: Sequence[int]) -> Tensor:
        """The direction (T', O, D) in x of a direction in y, at some tokens."""
        direction = direction * self.weight * self.factor[list(tokens), None]
        return direction - direction.mean(-1, keepdim=True) if self.is_centred else direction


def scaling(norm: nn.Module, x: Tensor) -> Scaling:
    """A norm, as it scales x (T, D)."""
    if not isinstance(norm, nn.LayerNorm | RMSNorm):
        raise TypeError(f"{type(norm).__name__} is no norm that can be taken apart")
    is_centred = isinstance(norm, nn.LayerNorm)
    centred = x - x.mean(-1, keepdim=True) if is_centred else x
    factor = (centred.square().mean(-1, keepdim=True) + cast(float, norm.eps)).rsqrt()
    weight = norm.weight.double()
    bias = getattr(norm, "bias", None)
    return Scaling(factor, weight, torch.zeros_like(weight) if bias is None else bias, is_centred)


class ResidualStream:
    """What happens to the vectors of the last stream, from their embeddings to the read-out."""

    def __init__(self, seen: Inspection) -> None:
        capture = seen.capture()
        self.blocks = [block for block in seen.stream.stack or () if isinstance(block, Block)]
        self.steps: list[Addition | Scaling] = []
        self.inputs: list[Tensor] = []
        """(T, D): the input of each feed-forward layer, before its norm."""
        self._x = torch.zeros_like(capture.states[0], dtype=torch.float64)
        embedded, places = capture.states[0], _positions(seen)
        self._add("embedding", None, embedded if places is None else embedded - places)
        if places is not None:
            self._add("position", None, places)
        for layer, (block, vectors) in enumerate(zip(self.blocks, capture.added, strict=True)):
            kinds = ["attention", "cross_attention", "feedforward"]
            if block.cross_attention is None:
                kinds.remove("cross_attention")
            for kind, added in zip(kinds, vectors, strict=True):
                if kind == "feedforward":
                    self.inputs.append(self._x)
                self._add(kind, layer, added)
                if not block.pre_norm:
                    self._normalize(block.get_submodule(f"{kind}_norm"))
        linear = seen.subject.linear
        self.shares: Tensor | None = None
        if isinstance(linear, LinearReadOut):
            self._normalize(linear.norm)
            if linear.shares is not None:
                self.shares = linear.shares(self._x.to(capture.states[0].dtype)).double()

    @property
    def additions(self) -> list[Addition]:
        return [step for step in self.steps if isinstance(step, Addition)]

    def _add(self, kind: str, layer: int | None, vectors: Tensor) -> None:
        vectors, x = vectors.double(), self._x
        self._x = x + vectors
        length, before = vectors.norm(dim=-1), x.norm(dim=-1)
        cosine = (vectors * x).sum(-1) / (length * before).clamp(min=1e-12)
        self.steps.append(Addition(kind, layer, vectors, length, cosine, self._x.norm(dim=-1)))

    def _normalize(self, norm: nn.Module) -> None:
        if isinstance(norm, nn.Identity):
            return
        step = scaling(norm, self._x)
        everywhere = range(len(self._x))
        self._x = step.forward(self._x, everywhere) + step.bias
        self.steps.append(step)

    def parts_of_logits(self, linear: LinearReadOut, rows: Tensor, tokens: Sequence[int]) -> Tensor:
        """What each addition at some tokens adds to the logits of the outputs (T', O), and last all
        biases: (T', O, N + 1), or (1, O, N + 1) from all tokens if the states are pooled."""
        direction = linear.head.weight[rows].double()  # (T', O, D)
        constant = torch.zeros_like(direction[..., 0])
        values = []
        for step in reversed(self.steps):
            if isinstance(step, Scaling):
                constant += direction @ step.bias.double()
                direction = step.backward(direction, tokens)
            else:
                vectors = step.vectors[list(tokens)]
                values.append(torch.einsum("tod,td->to", direction, vectors))
        parts = torch.stack([*reversed(values), constant], dim=-1)  # (T', O, N + 1)
        if self.shares is not None:
            parts = torch.einsum("t,ton->on", self.shares, parts)[None]
            rows = rows[:1]
        if linear.head.bias is not None:
            parts[..., -1] += linear.head.bias.double()[rows]
        return parts / linear.temperature

    def pushes(
        self, linear: LinearReadOut, layer: int, vectors: Tensor, tokens: Sequence[int]
    ) -> Tensor:
        """What vectors (T', U, D) that the feed-forward layer adds at some tokens add to all
        logits: (T', U, C)."""
        index = next(
            number
            for number, step in enumerate(self.steps)
            if isinstance(step, Addition) and (step.kind, step.layer) == ("feedforward", layer)
        )
        for step in self.steps[index + 1 :]:
            if isinstance(step, Scaling):
                vectors = step.forward(vectors, tokens)
        if self.shares is not None:
            vectors = vectors * self.shares[list(tokens)][:, None, None]
        return vectors.float() @ linear.head.weight.float().T / linear.temperature


def _positions(seen: Inspection) -> Tensor | None:
    """What is added to the embeddings at each position, if no norm follows: (T, D)."""
    subject, states = seen.subject, seen.capture().states[0]
    if subject.entry.is_normed:
        return None
    picture = seen.stream.picture
    if picture is not None:
        return None if picture.positions is None else picture.positions.to(states)
    return position_vectors(subject.positions, len(states), states.size(1), states.device)


# --- the data of the page ---


@torch.inference_mode()
def residual_data(seen: Inspection, is_live: bool) -> dict[str, Any] | None:
    """What the page shows of the residual stream and of hidden units; if the page carries the
    model, only whether logits are a sum. None: the states of the model have no common stream."""
    blocks = [block for block in seen.stream.stack or () if isinstance(block, Block)]
    if not blocks or not seen.has_layers:
        return None
    linear = seen.subject.linear
    if isinstance(linear, LinearReadOut) and not isinstance(linear.head, nn.Linear):
        linear = "the output layer has 8-bit weights"
    data: dict[str, Any] = {
        "why": linear if isinstance(linear, str) else None,
        "is_normed": seen.subject.entry.is_normed,
        "activation": blocks[0].feedforward.kind,
        "parts": None,
    }
    if isinstance(linear, LinearReadOut):
        kind = "layer" if isinstance(linear.norm, nn.LayerNorm) else "rms"
        data["final_norm"] = None if isinstance(linear.norm, nn.Identity) else kind
        data["temperature"] = linear.temperature
    if is_live:
        return data
    stream = ResidualStream(seen)
    additions = stream.additions
    data["parts"] = [[part.kind, part.layer] for part in additions]
    for name in ("length", "cosine", "after"):
        data[name] = _exact(torch.stack([getattr(part, name) for part in additions]))  # (N, T)
    if isinstance(linear, LinearReadOut):
        data["logits"] = _logits(seen, stream, linear)
    data["units"] = _units(seen, stream, linear)
    return data


def _exact(values: Tensor) -> dict[str, Any]:
    return packed(values.cpu().numpy(), np.float32)


def _logits(seen: Inspection, stream: ResidualStream, linear: LinearReadOut) -> dict[str, Any]:
    """The parts of the logits of the likeliest outputs of each prediction, and of the right one."""
    best = seen.logprobs.topk(min(len(seen.predictions[0].options), seen.logits.shape[1])).indices
    actual = [id if id is not None else int(best[n, 0]) for n, id in enumerate(seen.subject.actual)]
    rows = torch.cat([best, torch.tensor(actual)[:, None]], dim=1)  # (P, O)
    device, count = linear.head.weight.device, len(stream.additions[0].vectors)
    logits = np.take_along_axis(seen.logits, rows.numpy(), axis=1)  # (P, O)
    at = list(range(len(rows)))
    if stream.shares is not None:
        tokens = list(range(count))
        rows = rows.expand(count, -1)
    else:
        if rows.numel() * linear.head.in_features > MOST_DIRECTIONS:
            at = [seen.subject.focus % len(at)]
        tokens, rows = at, rows[at]
    parts = stream.parts_of_logits(linear, rows.to(device), tokens)
    return {"at": at, "values": _exact(parts), "logits": packed(logits[at], np.float32)}


def _units(
    seen: Inspection, stream: ResidualStream, linear: LinearReadOut | str
) -> dict[str, Any] | None:
    """Hidden units before their activation; the strongest of them, and what these push for."""
    feeds = [block.feedforward for block in stream.blocks]
    if not all(isinstance(feed.down, nn.Linear) for feed in feeds):  # 8-bit weights
        return None
    num_tokens, width = len(stream.inputs[0]), feeds[0].up.out_features
    tokens = list(range(num_tokens))
    if len(feeds) * width * num_tokens > MOST_UNITS:
        subject = seen.subject
        first = subject.first_token if subject.predicts == "whole" else subject.focus
        tokens = [(num_tokens - 1 if first is None else first) % num_tokens]
    before, gates, lengths, order = [], [], [], []
    pushed: dict[str, Any] = {}
    for layer, (block, feed) in enumerate(zip(stream.blocks, feeds, strict=True)):
        x = stream.inputs[layer][tokens].to(feed.down.weight.dtype)  # (T', D)
        x = block.feedforward_norm(x) if block.pre_norm else x
        hidden = feed.up(x)  # (T', F)
        before.append(hidden)
        if feed.gate is not None:
            gates.append(gate := feed.gate(x))
            after = feed.activation(gate) * hidden
        else:
            after = feed.activation(hidden)
        length = feed.down.weight.norm(dim=0)  # (F,)
        lengths.append(length)
        units = (after.abs() * length).topk(min(SHOWN_UNITS, width)).indices  # (T', U)
        order.append(units.tolist())
        if isinstance(linear, LinearReadOut):
            vectors = feed.down.weight.T[units] * after.gather(1, units)[..., None]  # (T', U, D)
            logits = stream.pushes(linear, layer, vectors.double(), tokens)
            pushed |= _most(seen, logits, layer, tokens, units)
    return {
        "tokens": tokens,
        "before": packed(torch.stack(before).cpu().numpy()),  # (L, T', F)
        "gates": packed(torch.stack(gates).cpu().numpy()) if gates else None,
        "lengths": packed(torch.stack(lengths).cpu().numpy()),  # (L, F)
        "order": order,
        "pushes": pushed,
    }


def _most(
    seen: Inspection, logits: Tensor, layer: int, tokens: Sequence[int], units: Tensor
) -> dict[str, Any]:
    """The outputs that each unit makes likeliest and least likely, by "layer/token/unit"."""
    count = min(SHOWN_TOKENS, logits.size(-1))
    sides = [logits.topk(count, largest=is_up) for is_up in (True, False)]
    pushed = {}
    for n, token in enumerate(tokens):
        for u, unit in enumerate(units[n].tolist()):
            pushed[f"{layer}/{token}/{unit}"] = [
                [
                    [seen.subject.name_of(id), value]
                    for id, value in zip(
                        side.indices[n, u].tolist(), side.values[n, u].tolist(), strict=True
                    )
                ]
                for side in sides
            ]
    return pushed
