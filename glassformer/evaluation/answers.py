"""Texts that a model writes about a memory: translations of sentences, captions of images.

"A man sleeps."  →  A·man·sleeps·.·<end>  →  memory  →  beams  →  Ein·Mann·schläft·.
image            →  places                →  memory  →  beams  →  a·man·sleeps

All scores but the loss are of texts that the model wrote from the source alone, never of words
that it was given.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from glassformer.data.rows import Array
from glassformer.evaluation.chapter import Answer, Chapter, Examination
from glassformer.evaluation.evaluating import evaluating, held_out, tracked
from glassformer.evaluation.losses import next_token_loss
from glassformer.evaluation.mistakes import Mistake
from glassformer.evaluation.result import Result
from glassformer.generation.beam import Trace, beam_search
from glassformer.generation.beam_settings import Beams
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.logits import refuse_nan
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.runtime.threads import side_by_side
from glassformer.wording import counted

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

WORST, BEST = 12, 6  # answers in the tables of a report

Write = Callable[[], tuple[list[str], int]]
"""Writes the texts that are compared; returns them, and how many were cut off."""


@dataclass(frozen=True, kw_only=True)
class AnswerResult(Result):
    """How close texts are to their references, and the model's own loss on the references."""

    bleu: float
    chrf: float
    signature: str
    """How sacreBLEU computed BLEU."""
    loss: float
    seconds: float
    num_cut_off: int = 0
    """Texts that reached the maximum length before their end."""
    texts: Sequence[str] = field(default=(), repr=False)
    """What was written."""
    notes: tuple[str, ...] = ()
    errors: tuple[Mistake, ...] | None = None


@dataclass(frozen=True)
class PoorAnswer:
    """A text, and how close it is to its references."""

    measure: ClassVar[str]
    """What the score is."""
    perfect: ClassVar[float]
    """The highest score."""
    columns: ClassVar[dict[str, str]]
    """Those of a table, and their kinds."""
    source: str
    references: tuple[str, ...]
    text: str
    score: float
    """That of this text alone."""

    def cells(self) -> list[Any]:
        """A row of the table."""
        raise NotImplementedError


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
    def searched(numbers: Array) -> list[list[Hypothesis]]:
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

    at_a_time = side_by_side if model.device.type == "cpu" else map
    with evaluating(model):
        sizes = [sum(limits[number] for number in numbers) for numbers in batches]
        results = chain.from_iterable(tracked(at_a_time(searched, batches), sizes))
        by_number = dict(zip(np.concatenate(batches).tolist(), results, strict=True))
    return [by_number[number] for number in range(len(by_number))]


def texts_of(preprocessing: Any, results: Sequence[Sequence[Hypothesis]]) -> tuple[list[str], int]:
    """The best text about each source, and how many of them were cut off."""
    best = [hypotheses[0] for hypotheses in results]
    texts = [preprocessing.decode(each.ids) for each in best]
    return texts, sum(each.finish_reason == "length" for each in best)


def cut_off_note(number: int, of: int, context: int, what: str, where: str = "") -> str:
    """What to tell users about texts that were cut off."""
    note = (
        f"{number:,} of {counted(of, what)} reached the maximum length and "
        f"{'was' if number == 1 else 'were'} cut off{where}. Pass a larger --max-new-tokens, up to "
        f"the model's context of {context:,} tokens."
    )
    if 2 * number > of > 1:
        note += " Or train longer: a model that has learned little does not know where to end."
    return note


def hidden_and_targets(model: Any, batch: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """For each token to learn: the input of the head, and the right prediction."""
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
    streams = [[each[n] if n < len(each) else "" for each in references] for n in range(most)]
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
    answers: Sequence[PoorAnswer],
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
        Answer(each.source, each.references[0], each.text, each.score / each.perfect)
        for each in answers
    ]
    return Examination(tuple(chapters), measure, tuple(compared))


def _table(title: str, answers: Sequence[PoorAnswer], note: str) -> list[Chapter]:
    if not answers:
        return []
    columns, rows = answers[0].columns, [answer.cells() for answer in answers]
    data = {"columns": [*columns], "kinds": [*columns.values()], "rows": rows}
    return [Chapter(title, "table", data, note)]
