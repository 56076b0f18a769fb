"""How well a masked language model predicts hidden tokens.

    loss = mean of -log p(token | its text with some tokens hidden), over the hidden tokens

The same tokens are hidden each time a text is read, so that results can be compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch.nn import functional as F

from glassformer.data.batches import ValidationWindows
from glassformer.inspect.chapters import Examination
from glassformer.models.bert import Bert
from glassformer.preprocessing.masking import MaskedBatch, Masking
from glassformer.tasks.evaluating import EVALUATION_SEED, Result, held_out
from glassformer.tasks.language.scores import (
    Predictions,
    first_windows,
    loss_by_position,
    passage_chapter,
)
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.word_cache import Ids

BATCH_TOKENS = 4096  # read at once


@dataclass(frozen=True)
class MaskedResult(Result):
    """How well a masked language model predicts hidden tokens."""

    score_names = ("loss", "accuracy")
    details = ("num_tokens",)
    loss: float
    accuracy: float
    num_tokens: int
    notes: tuple[str, ...] = ()

    def parts(self) -> list[str]:
        right = f"{self.accuracy:.1%} of {self.num_tokens:,} predicted correctly"
        return [f"loss {self.loss:.4f} per masked token", right]


def evaluate_masked(model: Bert, ids: Ids, masking: Masking) -> MaskedResult:
    """Read all of `ids` once, in windows side by side; the same tokens are hidden each time."""
    windows = ValidationWindows(ids, masking.room, max(1, BATCH_TOKENS // masking.room))
    total, right, count = 0.0, 0, 0
    for batch in masked_batches(model, windows, masking):
        if len(batch.targets):
            logits = model.predict(model.hidden(batch.ids)[batch.is_asked]).float()
            total += F.cross_entropy(logits, batch.targets, reduction="sum").item()
            right += int((logits.argmax(-1) == batch.targets).sum())
            count += len(batch.targets)
    return MaskedResult(total / max(1, count), right / max(1, count), count)


def masked_batches(
    model: Bert, windows: ValidationWindows, masking: Masking
) -> Iterator[MaskedBatch]:
    """Held-out windows, in each of which the same tokens are hidden every time."""

    def mask(number: int) -> MaskedBatch:
        return masking.batch(windows[number][:, :-1], (EVALUATION_SEED, number))

    return held_out(model, range(len(windows)), mask)


def examine_masked(model: Bert, ids: Ids, masking: Masking, tokenizer: Tokenizer) -> Examination:
    """Examine the model on the beginning of the held-out text, with the masks of validation."""
    windows = first_windows(model, ids, masking.room)
    predictions = Predictions.joined(_predict(model, windows, masking))
    if not len(predictions.losses):
        return Examination()
    note = "Mean of −log p of a masked token at each position, with its 95% interval: "
    note += f"{len(predictions.losses):,} masked tokens of the held-out text."
    shown = "The beginning of the held-out text. The model had to predict the coloured tokens; "
    shown += "most of them were hidden."
    passage = passage_chapter(predictions, ids, tokenizer, "Masked tokens", shown)
    return Examination((*loss_by_position(predictions, note), passage))


def _predict(model: Bert, windows: ValidationWindows, masking: Masking) -> Iterator[Predictions]:
    frame, first = masking.frame, 0
    around = len(frame.before) + len(frame.after)
    for batch in masked_batches(model, windows, masking):
        rows, columns = (part.cpu().numpy() for part in batch.is_asked.nonzero(as_tuple=True))
        columns -= len(frame.before)
        num_rows, width = len(batch.ids), batch.ids.size(1) - around
        places = first + rows * width + columns
        first += num_rows * width
        if len(places):
            logits = model.predict(model.hidden(batch.ids)[batch.is_asked]).float()
            yield Predictions.of(logits, batch.targets, places, columns + 1)
