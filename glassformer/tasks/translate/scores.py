"""Translate many sentences at a time, score the translations, and show the best and the worst.

    loss     of the reference translations, given their sources
    BLEU     of the translations that the model wrote, all of them together
    chrF     the same; also of each translation alone

The chrF of single translations sorts the best and the worst, and is shown by length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.data.batches import PairedRows, Rows, end_to_end, sorted_batches
from glassformer.data.pair_files import Pair
from glassformer.data.rows import Array
from glassformer.errors import GlassformerError
from glassformer.generation.beam import Beams, Hypothesis, Trace
from glassformer.inspect.alignment import Alignment
from glassformer.inspect.chapters import Chapter, Examination, of_rows, trend
from glassformer.models.sources import Translator
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.tasks import answers
from glassformer.tasks.alignment import (
    attention_of_heads,
    select_weights,
    shown_tokens,
    word_starts,
)
from glassformer.tasks.bleu import choose_bleu_tokenizer, tokenized_bleu
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import counted

READ_AT_ONCE = 8192  # tokens of both sides, with padding
# Tokens of the source, times beams, with padding, on each thread: bounds the memory.
SEARCHED_AT_ONCE = 4096
PERFECT = 99.999  # a chrF that only rounding keeps from 100
SHOWN_TOKENS = 40  # of a sentence whose alignment is in a report
RATIOS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0)


@dataclass(frozen=True, kw_only=True)
class TranslationResult(answers.AnswerResult):
    """BLEU and chrF by sacreBLEU, and the model's own loss on the reference translations."""

    score_names = ("bleu", "chrf", "loss")
    details = (
        "perplexity",
        "signature",
        "num_sentences",
        "sentences_per_second",
        "num_too_long",
        "num_cut_off",
    )
    num_sentences: int
    num_too_long: int = 0
    """Pairs longer than the model's context: translated in pieces, and excluded from the loss."""

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


@dataclass(frozen=True)
class ScoredTranslation(answers.ScoredAnswer):
    """A translation with its sentence chrF."""

    measure: ClassVar = "chrF"
    perfect: ClassVar = 100
    columns: ClassVar = {
        "chrF": "number",
        "source": "text",
        "reference": "text",
        "translation": "text",
    }
    place: str = ""
    """The file and line of the sentence."""

    def cells(self) -> list[Any]:
        return [self.score, self.source, *self.references, self.text]

    def as_json(self) -> dict[str, Any]:
        texts = {"source": self.source, "reference": self.references[0], "translation": self.text}
        return texts | {"chrf": self.score, "place": self.place}

    def lines(self) -> list[str]:
        texts = {
            "source": self.source,
            "reference": self.references[0],
            "translation": self.text or "(empty)",
        }
        head = f"chrF {self.score:.1f}  {self.place}".rstrip()
        return [head, *(f"  {name + ':':<13}{text}" for name, text in texts.items())]


def pair_rows(preprocessing: PairPreprocessing, pairs: Sequence[Pair]) -> PairedRows:
    """Sentence pairs as tokens."""
    sources = preprocessing.encode_source([pair.source for pair in pairs])
    targets = preprocessing.encode_target([pair.target for pair in pairs])
    return PairedRows.of(sources, targets, "<u4")


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

    def encode(numbers: Array) -> Any:
        ids, is_text, _ = sources.padded(numbers)
        return model.encode(*(torch.from_numpy(part).to(model.device) for part in (ids, is_text)))

    limits = [
        max_new_tokens or preprocessing.longest_target(length, model.context_length)
        for length in sources.lengths.tolist()
    ]
    share = -(-len(rows) // torch.get_num_threads())  # so that no thread is idle
    batches = sorted_batches(sources.lengths, SEARCHED_AT_ONCE // beams.num_beams, share)
    return answers.search(model, preprocessing, batches, encode, limits, beams, prefix, trace)


def evaluate_translation(
    model: Translator,
    pairs: PairedRows,
    references: Sequence[str],
    translate: answers.Write,
    bleu_tokenizer: str | None = None,
    remarks: Sequence[str] = (),
) -> TranslationResult:
    """The loss of `pairs`, and how close the translations by `translate` are to the references.
    `bleu_tokenizer` is sacreBLEU's; None: chosen by the script of the references."""
    tokenizer, note = choose_bleu_tokenizer(references, bleu_tokenizer)
    bleu = tokenized_bleu(tokenizer)
    context = model.context_length
    is_too_long = np.maximum(pairs.source.lengths, pairs.target.lengths - 1) > context
    if is_too_long.all():
        raise GlassformerError(
            f"every sentence is longer than the model's context of {context:,} tokens."
        )
    fitting = pairs.select((~is_too_long).nonzero()[0])
    lengths = fitting.source.lengths + fitting.target.lengths
    batches = sorted_batches(lengths, READ_AT_ONCE)
    sizes = [int(lengths[numbers].sum()) for numbers in batches]
    loss = answers.mean_loss(model, batches, fitting.batch, sizes)
    notes, num_too_long = [*remarks, *([note] if note else [])], int(is_too_long.sum())
    if num_too_long:
        notes.append(
            f"the loss excludes {counted(num_too_long, 'pair')} longer than the model's context"
        )
    whole = [[text] for text in references]
    scores = answers.write_and_compare(model, whole, translate, bleu, "translation", notes)
    return TranslationResult(
        **scores, loss=loss, num_sentences=len(references), num_too_long=num_too_long
    )


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


def compare_sentences(pairs: Sequence[Pair], texts: Sequence[str]) -> list[ScoredTranslation]:
    """The translations of all sources, each with its chrF by sacreBLEU."""
    from sacrebleu.metrics.chrf import CHRF

    chrf = CHRF()
    return [
        ScoredTranslation(source, (target,), text, chrf.sentence_score(text, [target]).score, place)
        for (source, target, place), text in zip(pairs, texts, strict=True)
    ]


def examine_translations(
    translations: Sequence[ScoredTranslation], num_held_out: int
) -> Examination:
    """The best and worst of these translations of held-out sentences, and their lengths."""
    note = of_rows(len(translations), num_held_out, "sentence") + " Greedy translations."
    lengths = [len(one.source.split()) for one in translations]
    if max(lengths) == 1:  # languages without spaces
        lengths = [len(one.source) for one in translations]
    how = f"{note} chrF of each sentence by sacreBLEU; each point is a tenth of them, with its 95% "
    chapters = [
        *trend(
            "chrF by length of the source",
            lengths,
            [one.score for one in translations],
            ("length of the source", "mean chrF"),
            f"{how}interval.",
            "sentence",
            most=100,
        ),
        *_ratios(translations, note),
    ]
    measure = "mean sentence chrF / 100"
    return answers.examine_answers(translations, "translation", measure, note, chapters)


def _ratios(translations: Sequence[ScoredTranslation], note: str) -> list[Chapter]:
    """How many translations are shorter or longer than their reference, in characters."""
    pairs = [(one.text, *one.references) for one in translations]
    ratios = [len(text) / len(reference) for text, reference in pairs if reference]
    if not ratios:
        return []
    bin_of = np.searchsorted(RATIOS, ratios, side="right") - 1
    bins = [
        {"from": low, "to": high, "count": int((bin_of == number).sum())}
        for number, (low, high) in enumerate(zip(RATIOS, [*RATIOS[1:], None], strict=True))
    ]
    data = {"x": "length of the translation / length of the reference", "bins": bins}
    how = f"Length in characters, relative to the reference: below 1 is shorter. {note}"
    return [Chapter("Length ratio", "histogram", data, how)]


def alignment_chapter(
    model: Translator, preprocessing: PairPreprocessing, translations: Sequence[ScoredTranslation]
) -> list[Chapter]:
    """The cross-attention of the best, a middling and the worst translation, if there is any."""
    ranked = sorted((one for one in translations if one.text), key=lambda one: -one.score)
    sources = preprocessing.encode_source([answer.source for answer in ranked])
    targets = preprocessing.encode_target([answer.text for answer in ranked])
    rows = zip(ranked, sources, targets, strict=True)
    fitting = [row for row in rows if max(map(len, row[1:])) <= SHOWN_TOKENS]
    if not (model.taps and fitting):
        return []
    ranks = sorted({0, len(fitting) // 2, len(fitting) - 1})
    maps = []
    for answer, source, target in (fitting[rank] for rank in ranks):
        aligned = Alignment(
            source=answer.source,
            target=answer.text,
            source_tokens=shown_tokens(preprocessing.source, source),
            target_tokens=shown_tokens(preprocessing.target, target[1:]),
            weights=select_weights(attention_of_heads(model, source, target)).double().numpy(),
        )
        words = aligned.in_words(
            word_starts(preprocessing.source, source), word_starts(preprocessing.target, target[1:])
        )
        maps.append(
            {
                "title": f"chrF {answer.score:.1f}",
                "columns": words.source_tokens,
                "rows": words.target_tokens,
                "weights": words.weights.tolist(),
            }
        )
    note = "The best, a middling and the worst of the short translations. Rows are words of the "
    note += "translation, columns those of the source; the mean over all layers and heads."
    return [Chapter("Alignment", "heat_maps", {"maps": maps}, note)]
