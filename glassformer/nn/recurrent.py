"""Recurrence: a hidden state that every step of a sequence updates.

    state = cell(x, state)

The cell is that of an RNN, an LSTM or a GRU. `attention.py` has the attention of such a decoder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

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
