"""How well a masked language model predicts hidden tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch.nn import functional as F

from glassformer.data.token_windows import Ids, ValidationWindows
from glassformer.evaluation.evaluating import held_out
from glassformer.evaluation.result import Result
from glassformer.models.bert import Bert
from glassformer.preprocessing.masking import MaskedBatch, Masking

EVALUATION_SEED = 2**31  # one that no training can have
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

    def masked(number: int) -> MaskedBatch:
        return masking.batch(windows[number][:, :-1], (EVALUATION_SEED, number))

    return held_out(model, range(len(windows)), masked)
