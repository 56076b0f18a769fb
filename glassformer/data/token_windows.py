"""A corpus as one long sequence of token ids on disk, and the windows that training reads.

    ⟨end⟩ first document ⟨end⟩ second document ⟨end⟩ …

The file is memory-mapped: only the windows that are read are in memory. The windows of a batch
depend only on the seed and the step, so a resumed run needs no saved position.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from glassformer.errors import GlassformerError
from glassformer.text.word_cache import Ids as Ids
from glassformer.text.word_cache import id_type
from glassformer.wording import cause

WindowBatch = npt.NDArray[np.int64]


def write_tokens(file: IO[bytes], pieces: Iterable[Ids]) -> int:
    """Append ids to a file. Returns how many."""
    return sum(file.write(piece.tobytes()) // piece.itemsize for piece in pieces)


def open_tokens(file: Path | IO[bytes], vocab_size: int) -> Ids:
    """The ids, memory-mapped read-only."""
    try:
        return np.memmap(file, dtype=id_type(vocab_size), mode="r")
    except (OSError, ValueError) as error:
        raise GlassformerError(f"{file} cannot be read as tokens: {cause(error)}.") from None


class Windows(Dataset[WindowBatch]):
    """Windows of `context_length` inputs and their targets, shifted by one.

    Every epoch cuts the text at a new random offset and shuffles the windows, so each token is read
    once per epoch, with a different context. Only the remainder at the two ends, less than two
    windows, is skipped in an epoch. Needs more ids than one window.
    """

    def __init__(self, ids: Ids, context_length: int, seed: int) -> None:
        self.ids = ids
        self.context_length = context_length
        self.seed = seed
        self.per_epoch = max(1, len(ids) // context_length - 1)
        self.slack = len(ids) - self.per_epoch * context_length  # offsets to choose from
        self._epoch = -1
        self._starts: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def __getitems__(self, numbers: list[int]) -> WindowBatch:
        """(B, T + 1): the windows with these numbers, counted from the start of training."""
        starts = np.array([self._start(number) for number in numbers])
        return self.ids[starts[:, None] + np.arange(self.context_length + 1)].astype(np.int64)

    def _start(self, number: int) -> int:
        epoch, place = divmod(number, self.per_epoch)
        if epoch != self._epoch:
            random = np.random.default_rng((self.seed, epoch))
            offset = random.integers(self.slack)
            order = random.permutation(self.per_epoch)
            self._epoch, self._starts = epoch, offset + order * self.context_length
        return int(self._starts[place])


class ValidationWindows(Dataset[WindowBatch]):
    """A text in adjacent windows, read once: every token except the first is predicted.

    The last window may be shorter and is then a separate batch.
    """

    def __init__(self, ids: Ids, context_length: int, batch_size: int) -> None:
        self.ids = ids
        self.context_length = context_length
        self.batch_size = batch_size
        self.full = (len(ids) - 1) // context_length
        self.rest = (len(ids) - 1) % context_length

    def __len__(self) -> int:
        """Number of batches."""
        return -(-self.full // self.batch_size) + (self.rest > 0)

    def __getitem__(self, number: int) -> WindowBatch:
        """(B, T + 1): batch `number`."""
        first = min(number * self.batch_size, self.full)
        windows = np.arange(first, min(first + self.batch_size, self.full))
        length = self.context_length
        if len(windows) == 0:  # only the short window is left
            windows, length = np.array([self.full]), self.rest
        starts = windows * self.context_length
        return self.ids[starts[:, None] + np.arange(length + 1)].astype(np.int64)
