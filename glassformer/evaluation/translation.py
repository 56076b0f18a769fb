"""Translate many sentences at a time, and score the translations.

"A man sleeps."  →  A·man·sleeps·.·<end>  →  memory  →  beams  →  Ein·Mann·schläft·.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.data.padded_batches import Rows, end_to_end, sorted_batches
from glassformer.data.pair_batches import PairBatch, PairedRows
from glassformer.data.row_files import Array
from glassformer.errors import GlassformerError
from glassformer.evaluation.bleu_tokenizer import choose, tokenized_bleu
from glassformer.evaluation.evaluating import evaluating, tracked
from glassformer.evaluation.losses import next_token_loss
from glassformer.evaluation.mistakes import Mistake
from glassformer.evaluation.result import Result
from glassformer.generation.beam import Trace, beam_search
from glassformer.generation.beam_settings import Beams
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.logits import refuse_nan
from glassformer.models.translator import Translator
from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.runtime.threads import side_by_side
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import counted

READ_AT_ONCE = 8192  # tokens of both sides, with padding
# Tokens of the source, times beams, with padding, on each thread: bounds the memory.
SEARCHED_AT_ONCE = 4096


@dataclass(frozen=True)
class TranslationResult(Result):
    """BLEU and chrF by sacreBLEU, and the model's own loss on the reference translations."""

    score_names = ("bleu", "chrf", "loss")
    details = (
        *("perplexity", "signature", "num_sentences", "sentences_per_second"),
        *("num_too_long", "num_cut_off"),
    )
    bleu: float
    chrf: float
    signature: str
    """How sacreBLEU computed BLEU."""
    loss: float
    num_sentences: int
    seconds: float
    num_too_long: int = 0
    """Pairs longer than the model's context: translated in pieces, and excluded from the loss."""
    num_cut_off: int = 0
    """Translations that reached the maximum length before their end."""
    notes: tuple[str, ...] = ()
    errors: tuple[Mistake, ...] | None = None

    @property
    def sentences_per_second(self) -> float:
        return self.num_sentences / self.seconds

    def parts(self) -> list[str]:
        return [
            f"BLEU {self.bleu:.2f}",
            f"chrF {self.chrf:.2f}",
            f"loss {self.loss:.4f} per token",
            f"perplexity {self.perplexity:.3f}",
            counted(self.num_sentences, "sentence"),
        ]

    def lines(self) -> list[str]:
        return [f"{self.sentences_per_second:.1f} sentences per second", self.signature]


def search_translations(
    model: Translator,
    preprocessing: PairPreprocessing,
    rows: Sequence[Sequence[int]],
    beams: Beams,
    prefix: Sequence[int] = (),
    trace: Trace | None = None,
    max_new_tokens: int | None = None,
) -> list[list[Hypothesis]]:
    """The best translations of each row of source tokens, in the order of the rows. All begin with
    `prefix`, which is not returned. A trace records the search of a single row. The default length
    limit follows from the training data."""
    if not rows:
        return []
    sources = Rows(*end_to_end(rows, np.int64))

    def limit(num_source: int) -> int:
        return max_new_tokens or preprocessing.longest_target(num_source, model.context_length)

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
            max_new_tokens=[limit(int(n)) for n in sources.lengths[numbers]],
            ends=(preprocessing.end,),
            memory=memory,
            device=model.device,
            trace=trace,
            forbidden=preprocessing.forbidden,
        )

    share = -(-len(rows) // torch.get_num_threads())  # so that no thread is idle
    batches = sorted_batches(sources.lengths, SEARCHED_AT_ONCE // beams.num_beams, share)
    at_a_time = side_by_side if model.device.type == "cpu" else map
    with evaluating(model):
        parts = tracked(
            at_a_time(searched, batches), [int(sources.lengths[each].sum()) for each in batches]
        )
        results = [each for part in parts for each in part]
    found = dict(zip(np.concatenate(batches).tolist(), results, strict=True))
    return [found[number] for number in range(len(rows))]


def evaluate_translation(
    model: Translator,
    pairs: PairedRows,
    references: Sequence[str],
    translate: Callable[[], tuple[Sequence[str], int]],
    bleu_tokenizer: str | None = None,
    remarks: Sequence[str] = (),
) -> TranslationResult:
    """The loss of `pairs`, and how close the translations by `translate` are to the references. It
    also returns how many of its translations were cut off. `bleu_tokenizer` is sacreBLEU's; None:
    chosen by the script of the references."""
    from sacrebleu.metrics.chrf import CHRF

    tokenizer, note = choose(references) if bleu_tokenizer is None else (bleu_tokenizer, None)
    bleu = tokenized_bleu(tokenizer)
    longest = np.maximum(pairs.source.lengths, pairs.target.lengths - 1)
    fits = (longest <= model.context_length).nonzero()[0]
    if not len(fits):
        raise GlassformerError(
            f"every sentence is longer than the model's context of {model.context_length:,} tokens."
        )
    loss = _mean_loss(model, pairs.taken(fits))
    begin = time.perf_counter()
    texts, cut_off = translate()
    seconds = time.perf_counter() - begin
    too_long = len(longest) - len(fits)
    notes = [*remarks, *([note] if note else [])]
    if too_long:
        notes.append(
            f"the loss excludes {counted(too_long, 'pair')} longer than the model's context"
        )
    if cut_off:
        notes.append(cut_off_note(cut_off, len(texts), model.context_length))
    return TranslationResult(
        bleu=bleu.corpus_score(texts, [references]).score,
        chrf=CHRF().corpus_score(texts, [references]).score,
        signature=str(bleu.get_signature()),
        loss=loss,
        num_sentences=len(texts),
        seconds=seconds,
        num_too_long=too_long,
        num_cut_off=cut_off,
        notes=tuple(notes),
    )


def cut_off_note(
    number: int, of: int, context: int, where: str = "", what: str = "translation"
) -> str:
    """What to tell users about texts that were cut off."""
    note = (
        f"{number:,} of {counted(of, what)} reached the maximum length and "
        f"{'was' if number == 1 else 'were'} cut off{where}. Pass a larger --max-new-tokens, up to "
        f"the model's context of {context:,} tokens."
    )
    if 2 * number > of > 1:
        note += " Or train longer: a model that has learned little does not know where to end."
    return note


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
        batches = sorted_batches(lengths, READ_AT_ONCE)
        for numbers in tracked(batches, [int(lengths[each].sum()) for each in batches]):
            batch = PairBatch(*(part.to(model.device) for part in pairs.batch(numbers)))
            hidden, targets = hidden_and_targets(model, batch)
            mean = refuse_nan(next_token_loss(hidden, model.head, targets))
            total, count = total + mean.item() * len(targets), count + len(targets)
    return total / count


def unknown_characters(side: str, tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[str]:
    """A note on characters that a tokenizer cannot spell, if there are any."""
    if tokenizer.kind != "char":
        return
    if unknown := set(tokenizer.unknown_characters("".join(sorted(set().union(*texts))))):
        number = sum(not unknown.isdisjoint(text) for text in texts)
        yield (
            f"{counted(number, side)} {'has' if number == 1 else 'have'} characters that the model "
            f"does not know and cannot {'read' if side == 'source' else 'write'}; the loss "
            f"excludes them: {' '.join(sorted(unknown)[:10])}"
        )
