"""Reads every row of labelled data once, in batches of rows alike in length."""

from collections.abc import Iterator

import torch
from torch import Tensor

from glassformer.data.padded_batches import Array, LabelledBatch, LabelledRows, sorted_batches
from glassformer.evaluation.result import evaluating
from glassformer.generation.logits import refuse_nan
from glassformer.models.labeller import Labeller

READ_AT_ONCE = 8192  # items, with padding


def read_batches(
    model: Labeller, rows: LabelledRows
) -> Iterator[tuple[Array, LabelledBatch, Tensor]]:
    """The numbers of the rows in a batch, the batch, and its logits."""
    with evaluating(model):
        for numbers in sorted_batches(rows.lengths, READ_AT_ONCE):
            batch = rows.batch(numbers)
            logits = model(batch.ids.to(model.device), batch.is_text.to(model.device))
            refuse_nan(logits.abs())  # -∞, too, is refused
            yield numbers, batch, logits.float().cpu()


def read_logits(model: Labeller, rows: LabelledRows) -> Tensor:
    """(N, C) of all rows in their order, before the temperature."""
    logits = torch.empty(len(rows), len(model.labels))
    for numbers, _, found in read_batches(model, rows):
        logits[torch.from_numpy(numbers)] = found
    return logits
