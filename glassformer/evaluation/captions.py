"""Describe many images, and score the captions against what people wrote about the same images.

image  →  places  →  beams  →  "a dog runs across the grass"        by the model alone, word by word

All scores but the loss are of captions that the model wrote from the image alone, never of words
that it was given. Each caption is compared with all references of its image. BLEU, CIDEr-D and
exact matches ignore case, as is usual for captions.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from glassformer.data.caption_batches import CaptionBatch, CaptionRows
from glassformer.data.row_files import Array
from glassformer.evaluation.bleu_tokenizer import choose, tokenized_bleu
from glassformer.evaluation.cider import CiderD, words_of
from glassformer.evaluation.evaluating import evaluating, tracked
from glassformer.evaluation.losses import next_token_loss
from glassformer.evaluation.mistakes import Mistake
from glassformer.evaluation.result import Result
from glassformer.evaluation.translation import cut_off_note
from glassformer.generation.beam import beam_search
from glassformer.generation.beam_settings import Beams
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.logits import refuse_nan
from glassformer.models.caption_decoder import CaptionDecoder
from glassformer.preprocessing.caption import CaptionPreprocessing
from glassformer.runtime.threads import side_by_side
from glassformer.wording import counted

SEARCHED_AT_ONCE = 128  # images, times beams, on each thread
READ_AT_ONCE = 64  # images
FEW = 10  # images: too few for document frequencies
BY_CHARACTER = ("zh", "ja-mecab", "char")  # tokenizers of scripts without blanks between words


class Images(Protocol):
    """Images in memory or on disk, as the preprocessing reads them."""

    def __len__(self) -> int: ...
    def __getitem__(self, numbers: Any) -> Any:
        """uint8 (B, H, W, C)"""


@dataclass(frozen=True)
class CaptionResult(Result):
    """How close captions are to their references, and the model's own loss on the references."""

    score_names = ("bleu", "cider_d", "chrf", "exact_match", "loss")
    details = (
        *("perplexity", "signature", "num_images", "num_references", "images_per_second"),
        "num_cut_off",
    )
    bleu: float
    cider_d: float
    chrf: float
    exact_match: float
    """Share of captions that are one of the references, but for case and punctuation."""
    signature: str
    """How sacreBLEU computed BLEU."""
    loss: float
    num_images: int
    num_references: int
    seconds: float
    num_cut_off: int = 0
    """Captions that reached the maximum length before their end."""
    notes: tuple[str, ...] = ()
    errors: tuple[Mistake, ...] | None = None

    @property
    def images_per_second(self) -> float:
        return self.num_images / self.seconds

    def parts(self) -> list[str]:
        return [
            f"BLEU {self.bleu:.2f}",
            f"CIDEr-D {self.cider_d:.3f}",
            f"chrF {self.chrf:.2f}",
            f"exact match {self.exact_match:.1%}",
            f"loss {self.loss:.4f} per token",
            counted(self.num_images, "image"),
            counted(self.num_references, "reference"),
        ]

    def lines(self) -> list[str]:
        return [f"{self.images_per_second:.1f} images per second", self.signature]


def search_captions(
    model: CaptionDecoder,
    preprocessing: CaptionPreprocessing,
    images: Images,
    beams: Beams,
    max_new_tokens: int | None = None,
) -> list[list[Hypothesis]]:
    """The best captions of each image, best first. The default length limit follows from the
    training data."""
    limit = max_new_tokens or preprocessing.longest(model.context_length)
    at_once = max(1, SEARCHED_AT_ONCE // beams.num_beams)
    batches = [
        np.arange(first, min(first + at_once, len(images)))
        for first in range(0, len(images), at_once)
    ]

    @torch.inference_mode()
    def searched(numbers: Array) -> list[list[Hypothesis]]:
        memory = model.encode(preprocessing.pixels(images[numbers]).to(model.device))
        return beam_search(
            model,
            [[preprocessing.start]] * len(numbers),
            beams,
            max_new_tokens=limit,
            ends=(preprocessing.end,),
            memory=memory,
            device=model.device,
        )

    at_a_time = side_by_side if model.device.type == "cpu" else map
    with evaluating(model):
        parts = tracked(at_a_time(searched, batches), [len(each) for each in batches])
        return [each for part in parts for each in part]


def evaluate_captions(
    model: CaptionDecoder,
    loss: float,
    references: Sequence[Sequence[str]],
    describe: Callable[[], tuple[Sequence[str], int]],
    bleu_tokenizer: str | None = None,
    remarks: Sequence[str] = (),
) -> CaptionResult:
    """How close the captions by `describe` are to the references of the same images. It also
    returns how many of its captions were cut off. `bleu_tokenizer` is sacreBLEU's; None: chosen by
    the script of the references."""
    from sacrebleu.metrics.chrf import CHRF

    scorer = CaptionScorer(references, bleu_tokenizer)
    begin = time.perf_counter()
    texts, cut_off = describe()
    seconds = time.perf_counter() - begin
    notes = [*remarks, *scorer.notes]
    if cut_off:
        notes.append(cut_off_note(cut_off, len(texts), model.context_length, what="caption"))
    streams = _streams(references)
    return CaptionResult(
        bleu=scorer.bleu.corpus_score(list(texts), streams).score,
        cider_d=float(np.mean(scorer.cider_d(texts))),
        chrf=CHRF().corpus_score(list(texts), streams).score,
        exact_match=float(np.mean(scorer.matches(texts))),
        signature=str(scorer.bleu.get_signature()),
        loss=loss,
        num_images=len(references),
        num_references=sum(map(len, references)),
        seconds=seconds,
        num_cut_off=cut_off,
        notes=tuple(notes),
    )


class CaptionScorer:
    """Compares captions with the references of the same images, word by word."""

    def __init__(
        self, references: Sequence[Sequence[str]], bleu_tokenizer: str | None = None
    ) -> None:
        every = [text for each in references for text in each]
        tokenizer, note = choose(every) if bleu_tokenizer is None else (bleu_tokenizer, None)
        self.notes = [note] if note else []
        if len(references) < FEW:
            self.notes.append(
                f"CIDEr-D of {counted(len(references), 'image')} says little: it weighs words by "
                "how few of the images have them."
            )
        self.bleu = tokenized_bleu(tokenizer, lowercase=True)
        self._by_character = tokenizer in BY_CHARACTER
        self._known = [[self._words(text) for text in each] for each in references]

    def _words(self, text: str) -> list[str]:
        return words_of(text, self._by_character)

    def cider_d(self, texts: Sequence[str]) -> list[float]:
        """Of each caption, from 0 to 10."""
        return CiderD(self._known).scores(list(map(self._words, texts)))

    def matches(self, texts: Sequence[str]) -> list[bool]:
        """Whether each caption is one of its references, but for case and punctuation."""
        pairs = zip(map(self._words, texts), self._known, strict=True)
        return [words in known for words, known in pairs]


def _streams(references: Sequence[Sequence[str]]) -> list[list[str]]:
    """As sacreBLEU reads them: the first references of all images, the second …; empty where an
    image has no more, which sacreBLEU leaves out."""
    most = max(map(len, references))
    return [[each[n] if n < len(each) else "" for each in references] for n in range(most)]


def hidden_and_targets(model: CaptionDecoder, batch: CaptionBatch) -> tuple[Tensor, Tensor]:
    """For each token of the captions: the input of the head, and the right prediction."""
    memory = model.encode(batch.pixels).take(batch.images)
    hidden = model.hidden(batch.decoder_input, memory)  # (R, T - 1, D)
    targets, is_learned = batch.decoder_targets
    return hidden[is_learned], targets[is_learned]


def mean_loss(
    model: CaptionDecoder,
    images: Images,
    captions: CaptionRows,
    preprocessing: CaptionPreprocessing,
) -> float:
    """Mean of -log p over the tokens of all captions, each read once. Captions that exceed the
    context do not count."""
    fits = captions.rows.lengths - 1 <= model.context_length
    total, count = 0.0, 0
    with evaluating(model):
        batches = [
            np.arange(first, min(first + READ_AT_ONCE, len(images)))
            for first in range(0, len(images), READ_AT_ONCE)
        ]
        for numbers in tracked(batches, [len(each) for each in batches]):
            rows, places = captions.rows_of(numbers)
            rows, places = rows[fits[rows]], places[fits[rows]]
            if not len(rows):
                continue
            ids, is_learned = captions.padded(rows, preprocessing.tokenizer.unknown)
            pixels = preprocessing.pixels(images[numbers])
            parts = (pixels, torch.from_numpy(places), ids, is_learned)
            batch = CaptionBatch(*(part.to(model.device) for part in parts))
            hidden, targets = hidden_and_targets(model, batch)
            if len(targets):
                mean = refuse_nan(next_token_loss(hidden, model.head, targets))
                total, count = total + mean.item() * len(targets), count + len(targets)
    return total / count if count else math.nan
