"""Recurrence: a vector that is carried along a sequence and changed by every step; and how a
recurrent decoder looks back at what an encoder has read.

    score(s, h) = v · tanh(W_enc h + W_dec s)     additive
                  s · h                           dot
                  s · W h                         general
    weights     = softmax over the places h       (B, K, S)
    context     = weights · states                (B, K, D)
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.nn.attention import Tap
from glassformer.nn.linear import Linear

Cell = Literal["rnn", "lstm", "gru"]
ScoreKind = Literal["additive", "dot", "general"]
Vectors = tuple[Tensor, ...]  # (layers · directions, B, D) each: the LSTM carries two, others one

_CELLS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Recurrence(nn.Module):
    """Layers of one kind of cell, for rows of different lengths."""

    def __init__(
        self,
        cell: Cell,
        d_input: int,
        d_model: int,
        num_layers: int,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.cells = _CELLS[cell](
            d_input,
            d_model,
            num_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if num_layers > 1 else 0.0,  # it is between the layers
        )

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, start: Vectors | None = None
    ) -> tuple[Tensor, Vectors]:
        """(B, T, D), of which `lengths` steps are real → the outputs, and what is carried on.

        What lies behind the end of a row is not read, and its output is zero.
        """
        if lengths is None:
            output, carried = self.cells(x, _unwrapped(start))
            return output, _wrapped(carried)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, carried = self.cells(packed, _unwrapped(start))
        unpacked, _ = pad_packed_sequence(output, batch_first=True, total_length=x.size(1))
        return unpacked, _wrapped(carried)


def _wrapped(carried: Tensor | Vectors) -> Vectors:
    return (carried,) if isinstance(carried, Tensor) else carried


def _unwrapped(vectors: Vectors | None) -> Tensor | Vectors | None:
    """As torch wants it: the LSTM's two as a tuple, the others' one as it is."""
    return vectors[0] if vectors is not None and len(vectors) == 1 else vectors


class Places(NamedTuple):
    """The states of an encoder, ready to be looked at."""

    keys: Tensor  # (B, S, A): what a decoder's state is compared with
    states: Tensor  # (B, S, D)


class PlaceAttention(nn.Module):
    """The state of a decoder asks which of the encoder's places matter now."""

    def __init__(self, kind: ScoreKind, d_query: int, d_states: int) -> None:
        super().__init__()
        if kind == "dot" and d_query != d_states:
            raise ValueError(f"dot attention needs equal widths, not {d_query} and {d_states}")
        is_additive = kind == "additive"
        self.encoder = None if kind == "dot" else Linear(d_states, d_query, bias=False)
        self.decoder = Linear(d_query, d_query) if is_additive else None
        self.score = Linear(d_query, 1, bias=False) if is_additive else None
        self.tap = Tap()

    def remember(self, states: Tensor) -> Places:
        """W_enc h of every place, made once: (B, S, D)."""
        return Places(states if self.encoder is None else self.encoder(states), states)

    def forward(self, query: Tensor, places: Places, is_text: Tensor | None = None) -> Tensor:
        """(B · K, d_query) → (B · K, D): several states, one after the other, may look at one row
        of places, as the beams of a sentence do. `is_text` is (B, S)."""
        asked = query.unflatten(0, (len(places.keys), -1))  # (B, K, d_query)
        if self.decoder is not None and self.score is not None:
            both = places.keys[:, None] + self.decoder(asked)[:, :, None]  # (B, K, S, d_query)
            scores = self.score(both.tanh()).squeeze(-1)
        else:
            scores = asked @ places.keys.transpose(1, 2)
        if is_text is not None:
            scores = scores.masked_fill(~is_text[:, None], -math.inf)
        weights = scores.softmax(dim=-1)  # (B, K, S)
        self.tap.hear(weights)
        return (weights @ places.states).flatten(0, 1)
