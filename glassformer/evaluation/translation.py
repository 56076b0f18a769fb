"""Translate many sentences at a time, and score the translations.

"A man sleeps."  →  A·man·sleeps·.·<end>  →  memory  →  beams  →  Ein·Mann·schläft·.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.data.padded_batches import Array, Rows, end_to_end, sorted_batches
from glassformer.data.pair_batches import PairBatch, PairedRows
from glassformer.errors import GlassformerError
from glassformer.evaluation.losses import next_token_loss
from glassformer.evaluation.result import Result, evaluating
from glassformer.generation.beam import beam_search
from glassformer.generation.beam_settings import Beams
from glassformer.generation.beam_trace import Trace
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.logits import refuse_nan
from glassformer.models.translator import Translator
from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.runtime.threads import side_by_side
from glassformer.wording import counted

READ_AT_ONCE = 8192  # tokens of both sides, with padding
# Tokens of the source, times beams, with padding, on each thread: bounds the memory.
SEARCHED_AT_ONCE = 4096


@dataclass(frozen=True)
class TranslationResult(Result):
    """BLEU and chrF by sacreBLEU, and the model's own loss on the reference translations."""

    score_names = ("bleu", "chrf", "loss")
    details = ("perplexity", "signature", "num_sentences", "sentences_per_second", "num_too_long")
    bleu: float
    chrf: float
    signature: str
    """How sacreBLEU computed BLEU."""
    loss: float
    num_sentences: int
    seconds: float
    num_too_long: int = 0
    """Pairs longer than the model's context: translated in pieces, and excluded from the loss."""
    notes: tuple[str, ...] = ()

    @property
    def sentences_per_second(self) -> float:
        return self.num_sentences / self.seconds

    def headline(self) -> str:
        return (
            f"BLEU {self.bleu:.2f}, chrF {self.chrf:.2f} ("
            f"{counted(self.num_sentences, 'sentence')}), loss {self.loss:.4f} per token, "
            f"perplexity {self.perplexity:.3f}"
        )

    def text(self) -> str:
        return (
            f"BLEU {self.bleu:.2f}  chrF {self.chrf:.2f}  loss {self.loss:.4f}  perplexity "
            f"{self.perplexity:.3f}  ({counted(self.num_sentences, 'sentence')}, "
            f"{self.sentences_per_second:.1f} per second)\n{self.signature}"
        )


def longest_answer(num_source: int, model: Translator) -> int:
    """The most tokens of a translation: far more than a good one needs."""
    return min(model.context_length, 2 * num_source + 10)


def search_translations(
    model: Translator,
    preprocessing: PairPreprocessing,
    rows: Sequence[Sequence[int]],
    beams: Beams,
    prefix: Sequence[int] = (),
    trace: Trace | None = None,
) -> list[list[Hypothesis]]:
    """The best translations of each row of source tokens, in the order of the rows. All begin with
    `prefix`, which is not returned. A trace records the search of a single row."""
    if not rows:
        return []
    sources = Rows(*end_to_end(rows, np.int64))

    @torch.inference_mode()
    def searched(numbers: Array) -> list[list[Hypothesis]]:
        ids, is_text, _ = sources.padded(numbers)
        memory = model.encode(
            torch.from_numpy(ids).to(model.device), torch.from_numpy(is_text).to(model.device)
        )
        return beam_search(
            model,
            [[preprocessing.start, *prefix]] * len(numbers),
            beams,
            max_new_tokens=[longest_answer(int(n), model) for n in sources.lengths[numbers]],
            end=preprocessing.end,
            memory=memory,
            device=model.device,
            trace=trace,
        )

    batches = sorted_batches(sources.lengths, SEARCHED_AT_ONCE // beams.num_beams)
    at_a_time = side_by_side if model.device.type == "cpu" else map
    with evaluating(model):
        results = [each for part in at_a_time(searched, batches) for each in part]
    found = dict(zip(np.concatenate(batches).tolist(), results, strict=True))
    return [found[number] for number in range(len(rows))]


def evaluate_translation(
    model: Translator,
    pairs: PairedRows,
    references: Sequence[str],
    translate: Callable[[], Sequence[str]],
) -> TranslationResult:
    """The loss of `pairs`, and how close the translations by `translate` are to the references."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    longest = np.maximum(pairs.source.lengths, pairs.target.lengths - 1)
    fits = (longest <= model.context_length).nonzero()[0]
    if not len(fits):
        raise GlassformerError(
            f"every sentence is longer than the model's context of {model.context_length:,} tokens."
        )
    loss = _mean_loss(model, pairs.taken(fits))
    begin = time.perf_counter()
    texts = translate()
    seconds = time.perf_counter() - begin
    bleu = BLEU()
    too_long = len(longest) - len(fits)
    notes = (f"the loss excludes {counted(too_long, 'pair')} longer than the model's context",)
    return TranslationResult(
        bleu=bleu.corpus_score(texts, [references]).score,
        chrf=CHRF().corpus_score(texts, [references]).score,
        signature=str(bleu.get_signature()),
        loss=loss,
        num_sentences=len(texts),
        seconds=seconds,
        num_too_long=too_long,
        notes=notes if too_long else (),
    )


def hidden_and_targets(
    model: Translator, batch: PairBatch, own_share: float = 0.0
) -> tuple[Tensor, Tensor]:
    """For each token of the targets: the input of the head, and the right prediction."""
    memory = model.encode(batch.source, batch.source_is_text)
    more = {"own_share": own_share} if own_share else {}
    hidden = model.hidden(batch.decoder_input, memory, **more)  # (B, T - 1, D)
    targets, is_text = batch.decoder_targets
    return hidden[is_text], targets[is_text]


def _mean_loss(model: Translator, pairs: PairedRows) -> float:
    """Mean of -log p over the tokens of all targets, each read once."""
    lengths = pairs.source.lengths + pairs.target.lengths
    total, count = 0.0, 0
    with evaluating(model):
        for numbers in sorted_batches(lengths, READ_AT_ONCE):
            batch = PairBatch(*(part.to(model.device) for part in pairs.batch(numbers)))
            hidden, targets = hidden_and_targets(model, batch)
            mean = refuse_nan(next_token_loss(hidden, model.head, targets))
            total, count = total + mean.item() * len(targets), count + len(targets)
    return total / count
