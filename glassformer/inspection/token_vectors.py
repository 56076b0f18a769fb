"""A model as a function of what its tokens are made of: their vectors before the first layer, or
the pixels of an image.

    f: (B, T, D) of each stream → log-probabilities of all predictions      (B, P, C)
    f: (B, C, H, W)             → the same

Vectors that are put in place of those that the model looks up let it be asked what it would predict
for something between two tokens, or for no token in particular.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

from glassformer.errors import UsageError
from glassformer.inspection.subject import Stream, Subject
from glassformer.nn.observe import Change, Tap, changing

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
