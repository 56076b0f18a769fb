"""A model as a function of the vectors of its tokens, before the first layer.

    f: (B, T, D) of each stream → log-probabilities of all predictions      (B, P, C)

Vectors that are put in place of those that the model looks up let it be asked what it would predict
for something between two tokens, or for no token in particular.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from glassformer.errors import UsageError
from glassformer.inspection.subject import Stream, Subject
from glassformer.nn.observe import Change, Tap, changing

AT_ONCE = 2048  # tokens in one pass

Explained = Sequence[tuple[int, int]]
"""Predictions and the token of each whose log-probability is explained."""


class TokenVectors:
    """f: the vectors of the tokens → log-probabilities."""

    def __init__(self, subject: Subject) -> None:
        _check(subject)
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
        with changing(feeding(self.streams, vectors)):
            logits = self.subject.run_rows().double()
        return logsigmoid(logits) if self.subject.has_several_labels else logits.log_softmax(-1)

    def rows_at_once(self) -> int:
        return max(1, AT_ONCE // self.num_tokens)


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
