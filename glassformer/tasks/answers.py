"""Texts about a memory: what translating sentences and captioning images share.

    "A man sleeps."  →  A·man·sleeps·.·<end>  →  memory  →  beams  →  Ein·Mann·schläft·.
    image            →  places                →  memory  →  beams  →  a·man·sleeps

    loss = mean of -log p(t_n | t_<n, source)        over the tokens of all texts and their ends

All scores but the loss are of texts that the model wrote from the source alone, never of words that
it was given. Held-out sources are answered at every validation: BLEU decides which model is the
best.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from glassformer.config import Config
from glassformer.data.rows import Array
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.beam import Beams, Hypothesis, Trace, beam_search
from glassformer.inspect.chapters import Answer, Chapter, Examination, affordable, spread
from glassformer.machine.threads import side_by_side
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.nn.layers import refuse_nan
from glassformer.nn.loss import next_token_loss
from glassformer.progress import Notify
from glassformer.tasks.evaluating import (
    Mistake,
    Result,
    evaluating,
    held_out,
    tracked,
)
from glassformer.tasks.task import Objective
from glassformer.wording import counted

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU


# --- writing: a search for the best texts ---


@dataclass(frozen=True)
class WrittenText:
    """A translation or a caption that a search wrote."""

    text: str
    score: float
    """Log-probability of the text, divided by its length to the power of length_penalty."""
    finish_reason: str = "stop"
    """stop: it is complete; length: it was cut off at max_new_tokens or at the end of the model's
    context, or a better one was."""


@dataclass(frozen=True)
class WrittenTexts(ABC):
    """What was written about one source, the best first."""

    source: str
    ranked: list[WrittenText]

    @property
    def text(self) -> str:
        return self.ranked[0].text

    @property
    def is_cut_off(self) -> bool:
        """Whether the best is incomplete."""
        return self.ranked[0].finish_reason == "length"

    @abstractmethod
    def as_json(self) -> dict[str, Any]: ...


def search(
    model: MemoryDecoder,
    preprocessing: Any,
    batches: Sequence[Array],
    encode: Callable[[Array], Any],
    limits: Sequence[int],
    beams: Beams,
    prefix: Sequence[int] = (),
    trace: Trace | None = None,
) -> list[list[Hypothesis]]:
    """The best texts about each source, best first. All begin with `prefix`, which is not returned.
    `batches` are the numbers of the sources that are searched together, `encode` makes the memory
    of some, `limits` are the most tokens about each. A trace records the search of one source."""

    @torch.inference_mode()  # which holds for one thread only
    def search_part(numbers: Array) -> list[list[Hypothesis]]:
        return beam_search(
            model,
            [[preprocessing.start, *prefix]] * len(numbers),
            beams,
            max_new_tokens=[limits[number] for number in numbers],
            ends=(preprocessing.end,),
            memory=encode(numbers),
            device=model.device,
            trace=trace,
            forbidden=preprocessing.forbidden,
        )

    # Small matrix products hardly gain from a second core, so each batch has a thread of its own.
    at_a_time = side_by_side if model.device.type == "cpu" else map
    with evaluating(model):
        sizes = [sum(limits[number] for number in numbers) for numbers in batches]
        results = chain.from_iterable(tracked(at_a_time(search_part, batches), sizes))
        by_number = dict(zip(np.concatenate(batches).tolist(), results, strict=True))
    return [by_number[number] for number in range(len(by_number))]


def texts_of(preprocessing: Any, results: Sequence[Sequence[Hypothesis]]) -> tuple[list[str], int]:
    """The best text about each source, and how many of them were cut off."""
    best = [hypotheses[0] for hypotheses in results]
    texts = [preprocessing.decode(hypothesis.ids) for hypothesis in best]
    return texts, sum(hypothesis.finish_reason == "length" for hypothesis in best)


def whole_ids(preprocessing: Any, hypothesis: Hypothesis, prefix: Sequence[int] = ()) -> list[int]:
    """The ids of a text that a search wrote, from its start to its end if it came to one."""
    end = [preprocessing.end] if hypothesis.is_complete else []
    return [preprocessing.start, *prefix, *hypothesis.ids, *end]


def check_room(what: str, length: int, room: int) -> None:
    """Raise if a text of this length does not fit into the model."""
    if length > room:
        raise UsageError(
            f"the {what} has {length:,} tokens including its end token, but the model reads at "
            f"most {room:,}. Use a shorter one."
        )


def cut_off_note(count: int, of: int, context: int, what: str, where: str = "") -> str:
    """A note on texts that were cut off."""
    note = (
        f"{count:,} of {counted(of, what)} reached the maximum length and "
        f"{'was' if count == 1 else 'were'} cut off{where}. Pass a larger --max-new-tokens, up to "
        f"the model's context of {context:,} tokens."
    )
    if 2 * count > of > 1:
        note += " Or train longer: a model that has learned little does not know where to end."
    return note


# --- the loss: how likely a text is, given its source ---


def hidden_and_targets(model: Any, batch: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """The input of the head and the target, for each token to learn."""
    hidden = model.hidden(batch.decoder_input, batch.memory(model), **options)  # (B, T - 1, D)
    targets, is_learned = batch.decoder_targets
    return hidden[is_learned], targets[is_learned]


def mean_loss(
    model: MemoryDecoder,
    parts: Sequence[Array],
    batch: Callable[[Array], Any],
    sizes: Sequence[int] | None = None,
) -> float:
    """Mean of -log p over the tokens of all references, each read once; NaN if there are none."""
    total, count = 0.0, 0
    for read in held_out(model, parts, batch, sizes):
        hidden, targets = hidden_and_targets(model, read)
        if len(targets):
            mean = refuse_nan(next_token_loss(hidden, model.head, targets))
            total, count = total + mean.item() * len(targets), count + len(targets)
    return total / count if count else math.nan


@torch.inference_mode()
def logprobs_about(memory: Any, model: Any, ids: Sequence[int]) -> Tensor:
    """log p of each token of a text but the first, given the ones before it and the source."""
    row = torch.tensor([ids], device=model.device)
    logits = refuse_nan(model.head(model.hidden(row[:, :-1], memory))[0].float())
    return logits.log_softmax(-1).gather(1, row[0, 1:, None])[:, 0]


# --- how close texts are to their references ---

WORST, BEST = 12, 6  # answers in the tables of a report

Write = Callable[[], tuple[list[str], int]]
"""Writes the texts that are compared; returns them, and how many were cut off."""


@dataclass(frozen=True, kw_only=True)
class AnswerResult(Result):
    """The scores of texts against their references, and the loss of the model on the references."""

    bleu: float
    chrf: float
    signature: str
    """The signature of sacreBLEU: the settings that BLEU was computed with."""
    loss: float
    seconds: float
    num_cut_off: int = 0
    """Texts that reached the maximum length before their end."""
    texts: Sequence[str] = field(default=(), repr=False)
    """The texts that the model wrote."""
    notes: tuple[str, ...] = ()
    errors: tuple[Mistake, ...] | None = None


@dataclass(frozen=True)
class ScoredAnswer:
    """A text, and how close it is to its references."""

    measure: ClassVar[str]
    """The name of the score."""
    perfect: ClassVar[float]
    """The highest score."""
    columns: ClassVar[dict[str, str]]
    """The columns of a table of answers, and their kinds."""
    source: str
    references: tuple[str, ...]
    text: str
    score: float
    """The score of this text alone."""

    def cells(self) -> list[Any]:
        """A row of the table."""
        raise NotImplementedError


def write_and_compare(
    model: MemoryDecoder,
    references: Sequence[Sequence[str]],
    write: Write,
    bleu: "BLEU",
    what: str,
    notes: Sequence[str],
) -> dict[str, Any]:
    """Texts, and their scores: the values of an `AnswerResult`, but for its loss. `what` is what a
    text is called."""
    from sacrebleu.metrics.chrf import CHRF

    begin = time.perf_counter()
    texts, num_cut_off = write()
    seconds = time.perf_counter() - begin
    cut_off = cut_off_note(num_cut_off, len(texts), model.context_length, what)
    # sacreBLEU reads the first references of all texts, the second …, and leaves out empty ones.
    most = max(map(len, references))
    streams = [[texts[n] if n < len(texts) else "" for texts in references] for n in range(most)]
    return {
        "texts": texts,
        "bleu": bleu.corpus_score(texts, streams).score,
        "chrf": CHRF().corpus_score(texts, streams).score,
        "signature": str(bleu.get_signature()),
        "seconds": seconds,
        "num_cut_off": num_cut_off,
        "notes": (*notes, *([cut_off] if num_cut_off else [])),
    }


def examine_answers(
    answers: Sequence[ScoredAnswer],
    what: str,
    measure: str,
    note: str,
    more: Sequence[Chapter] = (),
) -> Examination:
    """The worst and the best of some answers to held-out sources, and `more` chapters. `measure` is
    the mean score of such answers, in words."""
    ranked = sorted(answers, key=lambda answer: answer.score)
    worst, best = ranked[:WORST], ranked[::-1][:BEST]
    if len(ranked) < WORST + BEST:  # no answer is among both
        middle = (len(ranked) + 1) // 2
        worst, best = ranked[:middle], ranked[middle:][::-1]
    name = ranked[0].measure
    chapters = [
        *_table(f"Worst {what}s", worst, f"{note} Sorted by {name}, the lowest first."),
        *_table(f"Best {what}s", best, f"The same, the highest {name} first."),
        *more,
    ]
    compared = [
        Answer(one.source, one.references[0], one.text, one.score / one.perfect) for one in answers
    ]
    return Examination(tuple(chapters), measure, tuple(compared))


def _table(title: str, answers: Sequence[ScoredAnswer], note: str) -> list[Chapter]:
    if not answers:
        return []
    columns, rows = answers[0].columns, [answer.cells() for answer in answers]
    data = {"columns": [*columns], "kinds": [*columns.values()], "rows": rows}
    return [Chapter(title, "table", data, note)]


# --- learning ---

# Validation only ranks the checkpoints of one model, some twenty times per run: greedy texts about
# some of the sources will do. `evaluate` searches with beams, for all of them.
GREEDY = Beams(num_beams=1)
VALIDATED = 500  # held-out sources that are answered, for BLEU
MOST_EXAMINED, LEAST_EXAMINED = 200, 20  # the same, for the report


class AnswerLossConfig(Config):
    """The settings of the loss of texts."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of the target probability spread over all tokens."""


def context_for(lengths: Sequence[Array], least: int, most: int) -> int:
    """The context of a model for texts of these lengths, within limits. A single very long one must
    not enlarge the model for all."""
    longest = max(min(side.max(), 2 * np.quantile(side, 0.99)) for side in lengths)
    return min(most, max(least, -(-int(longest) // 16) * 16))


def check_fits(
    fits: Array, part: str, what: str, place_of: Callable[[int], str], context: int, notify: Notify
) -> None:
    """Report the texts of a part that are too long for the model. Raise if all are."""
    if count := int((~fits).sum()):
        notify(
            f"note: left out of {part}: {counted(count, what)} longer than the model's context "
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
        """The text that the model writes about one of the held-out sources."""
        number = step % len(self.dataset.held_out)
        (text,), cut_off = self.write(model, [number])
        return f"{self.source(number)} → {text}{' …' * cut_off}"

    def validated_numbers(self) -> list[int]:
        """The numbers of the held-out sources that a validation answers."""
        return spread(len(self.dataset.held_out), VALIDATED)

    def examined_numbers(self, model: MemoryDecoder, size: float) -> list[int]:
        """The numbers of the held-out sources, `size` tokens each, that are in a report."""
        num_parameters = sum(weight.numel() for weight in model.parameters())
        size = max(1.0, size)
        count = int(affordable(num_parameters, math.ceil(MOST_EXAMINED * size)) / size)
        most = max(LEAST_EXAMINED, min(MOST_EXAMINED, count))
        return spread(len(self.dataset.held_out), most)
