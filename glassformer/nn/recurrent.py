"""Recurrence: a hidden state that every step of a sequence updates, and attention from the
state of a decoder to the states of an encoder.

    state = cell(x, state)                        RNN, LSTM or GRU, one step after another

    score(s, h) = v · tanh(W_enc h + W_dec s)     additive (Bahdanau et al., 2015)
                  s · h                           dot
                  s · W h                         general (Luong et al., 2015)
    weights     = softmax over the states h       (B, K, S)
    context     = weights · states                (B, K, D)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from glassformer.nn.linear import Linear
from glassformer.nn.observe import Tap

Cell = Literal["rnn", "lstm", "gru"]
Vectors = tuple[Tensor, ...]  # (layers · directions, B, D) each: two for the LSTM, one for others


@dataclass
class RNNState:
    """What a recurrent decoder keeps between two decoding steps."""

    vectors: Vectors
    padding: Tensor  # (B,): the number of padding tokens that each row still starts with

    def reorder(self, indices: Tensor) -> "RNNState":
        vectors = tuple(vector[:, indices] for vector in self.vectors)
        return RNNState(vectors, self.padding[indices])

    def advance(self, vectors: Vectors) -> None:
        """Continue with `vectors`, the state after one more token; a filler changes nothing."""
        is_filler = (self.padding > 0)[None, :, None]
        self.vectors = tuple(
            old.where(is_filler, new) for old, new in zip(self.vectors, vectors, strict=True)
        )
        self.padding = (self.padding - 1).clamp(min=0)


_CELLS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Recurrence(nn.Module):
    """Stacked layers of one kind of cell, for rows of different lengths."""

    def __init__(
        self,
        cell: Cell,
        d_input: int,
        d_model: int,
        num_layers: int,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.cells = _CELLS[cell](
            d_input,
            d_model,
            num_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if num_layers > 1 else 0.0,  # PyTorch applies it between layers
        )

    def forward(
        self, x: Tensor, is_text: Tensor | None = None, start: Vectors | None = None
    ) -> tuple[Tensor, Vectors]:
        """(B, T, D) → the output at every step and the final state.

        `is_text` (B, T) marks the real steps; None: all are. Steps after the end of a row are not
        read, and their output is zero.
        """
        first = start if start is None or len(start) > 1 else start[0]  # as PyTorch expects it
        if is_text is None:
            output, carried = self.cells(x, first)
        else:
            # A row must have at least one step: of an empty text, one padding token.
            lengths = is_text.sum(dim=1).clamp(min=1).cpu()
            packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            output, carried = self.cells(packed, first)
            output, _ = pad_packed_sequence(output, batch_first=True, total_length=x.size(1))
        return output, (carried,) if isinstance(carried, Tensor) else carried


# --- attention of a recurrent decoder ---

ScoreKind = Literal["additive", "dot", "general"]


class Places(NamedTuple):
    """The states of an encoder, ready to be attended to."""

    keys: Tensor  # (B, S, A): what a decoder's state is scored against
    states: Tensor  # (B, S, D)
    is_text: Tensor | None = None  # (B, S); None: there is no padding

    def take(self, rows: Tensor) -> "Places":
        is_text = None if self.is_text is None else self.is_text[rows]
        return Places(self.keys[rows], self.states[rows], is_text)


class PlaceAttention(nn.Module):
    """Attention from the state of a recurrent decoder to the states of an encoder."""

    def __init__(self, kind: ScoreKind, d_query: int, d_states: int) -> None:
        super().__init__()
        if kind == "dot" and d_query != d_states:
            raise ValueError(f"dot attention needs equal widths, not {d_query} and {d_states}")
        is_additive = kind == "additive"
        self.encoder = None if kind == "dot" else Linear(d_states, d_query, bias=False)
        self.decoder = Linear(d_query, d_query) if is_additive else None
        self.score = Linear(d_query, 1, bias=False) if is_additive else None
        self.tap = Tap()

    def project_memory(self, states: Tensor, is_text: Tensor | None = None) -> Places:
        """W_enc h of every position, computed once, from (B, S, D)."""
        return Places(states if self.encoder is None else self.encoder(states), states, is_text)

    def weights(self, query: Tensor, places: Places) -> Tensor:
        """How much each query (B · K, d_query) attends to each place: (B, K, S). K consecutive
        queries share one row of `places`, such as the beams of one sentence."""
        queries = query.unflatten(0, (len(places.keys), -1))  # (B, K, d_query)
        if self.decoder is not None and self.score is not None:
            both = places.keys[:, None] + self.decoder(queries)[:, :, None]  # (B, K, S, d_query)
            scores = self.score(both.tanh()).squeeze(-1)
        else:
            scores = queries @ places.keys.transpose(1, 2)
        if places.is_text is not None:
            scores = scores.masked_fill(~places.is_text[:, None], -math.inf)
        weights = scores.softmax(dim=-1)  # (B, K, S)
        self.tap.hear(weights)
        return self.tap.changed(weights)

    def forward(self, query: Tensor, places: Places) -> Tensor:
        """(B · K, d_query) → (B · K, D)."""
        return context_of(self.weights(query, places), places)


def context_of(weights: Tensor, places: Places) -> Tensor:
    """The states as the weights (B, K, S) mix them: (B · K, D)."""
    return (weights @ places.states).flatten(0, 1)
