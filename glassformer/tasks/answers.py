"""Learning to write texts about a memory: what translation and captioning share.

    loss = mean of -log p(t_n | t_<n, source)        over the tokens of all texts and their ends

Held-out sources are answered at every validation: BLEU decides which model is the best.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydantic import Field
from torch import Tensor

from glassformer.config import Config
from glassformer.data.rows import Array
from glassformer.errors import GlassformerError
from glassformer.evaluation.answers import hidden_and_targets
from glassformer.evaluation.chapter import affordable, spread
from glassformer.evaluation.losses import next_token_loss
from glassformer.generation.beam_settings import Beams
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.tasks.task import Objective, Say
from glassformer.wording import counted

VALIDATED = 500  # held-out sources that are answered, for BLEU
MOST_EXAMINED, LEAST_EXAMINED = 200, 20  # the same, for the report
GREEDY = Beams(num_beams=1)


class AnswerLossConfig(Config):
    """How writing is learned."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of the target probability spread over all tokens."""


def context_for(lengths: Sequence[Array], least: int, most: int) -> int:
    """The context of a model for texts of these lengths, within limits. A single very long one must
    not enlarge the model for all."""
    longest = max(min(each.max(), 2 * np.quantile(each, 0.99)) for each in lengths)
    return min(most, max(least, -(-int(longest) // 16) * 16))


def check_fits(
    fits: Array, part: str, what: str, place_of: Callable[[int], str], context: int, say: Say
) -> None:
    """Report the texts of a part that are too long for the model. Raise if all are."""
    if number := int((~fits).sum()):
        say(
            f"note: left out of {part}: {counted(number, what)} longer than the model's context "
            f"of {context:,} tokens (first: {place_of(int(fits.argmin()))})"
        )
    if not fits.any():
        name = "sentence" if what == "pair" else what
        raise GlassformerError(
            f"every {name} is longer than the model allows. Pass a larger --set "
            "model.context_length."
        )


class AnswerObjective(Objective):
    """Write texts about sources."""

    measure = "bleu"

    def loss(self, model: Any, batch: Any, **options: Any) -> Tensor:
        hidden, targets = hidden_and_targets(model, batch, **options)
        return next_token_loss(hidden, model.head, targets, self.recipe.objective.label_smoothing)

    def num_targets(self, batch: Any) -> float:
        _, is_learned = batch.decoder_targets
        return float(is_learned.sum())

    @abstractmethod
    def write(self, model: Any, numbers: Sequence[int]) -> tuple[list[str], int]:
        """Greedy texts about the held-out sources with these numbers, and how many of them were cut
        off."""

    @abstractmethod
    def source(self, number: int) -> str:
        """A held-out source in words, for a line that must have room for the text about it."""

    def sample(self, model: Any, step: int) -> str:
        """Its text about one of the held-out sources."""
        number = step % len(self.dataset.held_out)
        (text,), cut_off = self.write(model, [number])
        return f"{self.source(number)} → {text}{' …' * cut_off}"

    def validated(self) -> list[int]:
        """The numbers of the held-out sources that a validation answers."""
        return spread(len(self.dataset.held_out), VALIDATED)

    def examined(self, model: MemoryDecoder, size: float) -> list[int]:
        """The numbers of the held-out sources, `size` tokens each, that are in a report."""
        num_parameters = sum(weight.numel() for weight in model.parameters())
        size = max(1.0, size)
        count = int(affordable(num_parameters, math.ceil(MOST_EXAMINED * size)) / size)
        most = max(LEAST_EXAMINED, min(MOST_EXAMINED, count))
        return spread(len(self.dataset.held_out), most)
