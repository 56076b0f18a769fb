"""Describe many images, score the captions against what people wrote about the same images, and
show the best and the worst.

Each caption is compared with all references of its image. BLEU, CIDEr-D and exact matches ignore
case, as is usual for captions.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.data.batches import CaptionBatch, CaptionRows, ChosenImages, sorted_batches
from glassformer.data.image_sets import ImageExample
from glassformer.data.image_store import ImageStore
from glassformer.data.images import Pixels, data_uri
from glassformer.data.rows import Array
from glassformer.generation.beam import Beams, Hypothesis
from glassformer.inspect.chapters import Examination, of_rows
from glassformer.models.sources import CaptionDecoder
from glassformer.preprocessing.images import CaptionPreprocessing
from glassformer.tasks import answers
from glassformer.tasks.bleu import choose_bleu_tokenizer, tokenized_bleu
from glassformer.wording import counted

# --- CIDEr-D: how close a caption is to what several people wrote about the same image ---
#
#     g(text)     = tf · log(N / df)                      for each n-gram, n = 1 … 4
#     sim(c, r)   = Σ min(g(c), g(r)) · g(r) / (‖g(c)‖ ‖g(r)‖) · exp(-(|c| - |r|)² / 2σ²)
#     CIDEr-D     = 10 · mean over n, over the references r of sim(c, r)
#
# tf is the number of times that an n-gram occurs in a text, N the number of images, df the number
# of images with a reference that contains it: words that most captions share count little. df is
# counted in the references that are passed in, so scores on different data cannot be compared, and
# those of a handful of images say little. The minimum and the Gaussian (σ = 6 words) are what "D"
# adds to CIDEr, so that a caption does not gain by repeating words or by its length.
#
# Vedantam, Zitnick and Parikh: CIDEr: Consensus-based image description evaluation, 2015.

LONGEST = 4  # words of an n-gram
SIGMA = 6.0

Gram = tuple[str, ...]
Words = Sequence[str]

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def words_of(text: str, by_character: bool = False) -> list[str]:
    """The lower-case words of a caption without punctuation; its characters, where a script has no
    blanks between words."""
    words = _WORD.findall(text.lower())
    return [character for word in words for character in word] if by_character else words


@dataclass(frozen=True)
class _Vectors:
    """The TF-IDF vector of a text for each n, their lengths, and the number of words."""

    weights: list[dict[Gram, float]]
    norms: list[float]
    num_words: int


class CiderD:
    """The score for one set of references: a list of them for each image, as words."""

    def __init__(self, references: Sequence[Sequence[Words]]) -> None:
        grams_of_images = (set().union(*map(_grams, texts)) for texts in references)
        self._images = Counter(gram for grams in grams_of_images for gram in grams)  # df
        self._log_total = math.log(max(1, len(references)))
        self._references = [[self._vectors(words) for words in texts] for texts in references]

    def scores(self, captions: Sequence[Words]) -> list[float]:
        """The score of the caption of each image, from 0 to 10."""
        pairs = zip(captions, self._references, strict=True)
        return [_score(self._vectors(words), references) for words, references in pairs]

    def _vectors(self, words: Words) -> _Vectors:
        weights: list[dict[Gram, float]] = [{} for _ in range(LONGEST)]
        for gram, count in _grams(words).items():
            rarity = self._log_total - math.log(max(1, self._images[gram]))
            weights[len(gram) - 1][gram] = count * rarity
        norms = [math.sqrt(math.fsum(w * w for w in size.values())) for size in weights]
        return _Vectors(weights, norms, len(words))


def _grams(words: Words) -> Counter[Gram]:
    return Counter(
        tuple(words[first : first + size])
        for size in range(1, LONGEST + 1)
        for first in range(len(words) - size + 1)
    )


def _score(caption: _Vectors, references: Iterable[_Vectors]) -> float:
    similar = [_similarity(caption, reference) for reference in references]
    return 10 * math.fsum(similar) / len(similar)


def _similarity(caption: _Vectors, reference: _Vectors) -> float:
    """The mean over n."""
    total = 0.0
    for size in range(LONGEST):
        norm = caption.norms[size] * reference.norms[size]
        if norm:
            weights = reference.weights[size]
            total += (
                math.fsum(
                    min(weight, weights[gram]) * weights[gram]
                    for gram, weight in caption.weights[size].items()
                    if gram in weights
                )
                / norm
            )
    difference = caption.num_words - reference.num_words
    return total / LONGEST * math.exp(-(difference**2) / (2 * SIGMA**2))


# --- captions of many images, and their scores ---

SEARCHED_AT_ONCE = 128  # images, times beams, on each thread
READ_AT_ONCE = 64  # images
LARGEST = 96  # pixels of a side of an image in a report
FEW = 10  # images: too few for document frequencies
BY_CHARACTER = ("zh", "ja-mecab", "char")  # tokenizers of scripts without blanks between words


@dataclass(frozen=True, kw_only=True)
class CaptionResult(answers.AnswerResult):
    """How close captions are to their references, and the model's own loss on the references."""

    score_names = ("bleu", "cider_d", "chrf", "exact_match", "loss")
    details = (
        "perplexity",
        "signature",
        "num_images",
        "num_references",
        "images_per_second",
        "num_cut_off",
    )
    cider_d: float
    exact_match: float
    """Share of captions that are one of the references, but for case and punctuation."""
    num_images: int
    num_references: int

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


@dataclass(frozen=True)
class ScoredCaption(answers.ScoredAnswer):
    """A caption with its CIDEr-D. The source is what the image is called."""

    measure: ClassVar = "CIDEr-D"
    perfect: ClassVar = 10
    columns: ClassVar = {
        "CIDEr-D": "number",
        "image": "image",
        "references": "text",
        "caption": "text",
        "file": "text",
    }
    image: ImageExample
    is_match: bool
    """Whether it equals a reference, ignoring case and punctuation."""

    def cells(self) -> list[Any]:
        picture = data_uri(self.image.input, LARGEST)
        return [self.score, picture, " | ".join(self.references), self.text, self.source]

    def as_json(self) -> dict[str, Any]:
        source = {"image": self.source, "references": list(self.references)}
        return source | {"caption": self.text, "cider_d": self.score}

    def lines(self) -> list[str]:
        head = f"CIDEr-D {self.score:.2f}  {self.source}"
        texts = [("caption", self.text or "(empty)")]
        texts += [("reference", text) for text in self.references]
        return [head, *(f"  {name + ':':<11}{text}" for name, text in texts)]


def search_captions(
    model: CaptionDecoder,
    preprocessing: CaptionPreprocessing,
    images: Pixels | ChosenImages,
    beams: Beams,
    max_new_tokens: int | None = None,
) -> list[list[Hypothesis]]:
    """The best captions of each image, best first. The default length limit follows from the
    training data."""

    def encode(numbers: Array) -> Any:
        return model.encode(preprocessing.pixels(images[numbers]).to(model.device))

    limit = max_new_tokens or preprocessing.longest(model.context_length)
    batches = _batches(len(images), SEARCHED_AT_ONCE // beams.num_beams)
    return answers.search(model, preprocessing, batches, encode, [limit] * len(images), beams)


def _batches(num_images: int, most: int) -> list[Array]:
    """The numbers of so many images, in their order."""
    return sorted_batches(np.ones(num_images, dtype=np.int64), most)


def caption_rows(
    preprocessing: CaptionPreprocessing, images: Sequence[ImageExample]
) -> CaptionRows:
    """The captions of images as tokens."""
    captions = [preprocessing.encode_captions(image.captions) for image in images]
    return CaptionRows.of(captions, [image.number for image in images], np.int64)


def caption_loss(
    model: CaptionDecoder,
    preprocessing: CaptionPreprocessing,
    store: ImageStore,
    captions: CaptionRows,
) -> float:
    """Mean of -log p over the tokens of all captions of images in a store. Those that exceed the
    context do not count; NaN if all do."""
    fits = captions.rows.lengths - 1 <= model.context_length
    with_captions = np.unique(np.repeat(np.arange(len(captions)), captions.counts)[fits])

    def batch(part: Array) -> CaptionBatch:
        numbers = with_captions[part]
        rows, owners = captions.rows_of(numbers)
        rows, owners = rows[fits[rows]], owners[fits[rows]]
        # An unknown word is read, but never a target: a captioner does not learn to write it.
        ids, is_learned = captions.padded(rows, preprocessing.tokenizer.unknown)
        pixels = preprocessing.pixels(store[captions.numbers[numbers]])
        return CaptionBatch(pixels, torch.from_numpy(owners), ids, is_learned)

    return answers.mean_loss(model, _batches(len(with_captions), READ_AT_ONCE), batch)


def evaluate_captions(
    model: CaptionDecoder,
    loss: float,
    references: Sequence[Sequence[str]],
    describe: answers.Write,
    bleu_tokenizer: str | None = None,
    remarks: Sequence[str] = (),
) -> CaptionResult:
    """How close the captions by `describe` are to the references of the same images.
    `bleu_tokenizer` is sacreBLEU's; None: chosen by the script of the references."""
    scorer = CaptionScorer(references, bleu_tokenizer)
    notes = [*remarks, *scorer.notes]
    scores = answers.write_and_compare(model, references, describe, scorer.bleu, "caption", notes)
    return CaptionResult(
        **scores,
        cider_d=float(np.mean(scorer.cider_d(scores["texts"]))),
        exact_match=float(np.mean(scorer.matches(scores["texts"]))),
        loss=loss,
        num_images=len(references),
        num_references=sum(map(len, references)),
    )


class CaptionScorer:
    """Compares captions with the references of the same images, word by word."""

    def __init__(
        self, references: Sequence[Sequence[str]], bleu_tokenizer: str | None = None
    ) -> None:
        every = [text for texts in references for text in texts]
        tokenizer, note = choose_bleu_tokenizer(every, bleu_tokenizer)
        self.notes = [note] if note else []
        if len(references) < FEW:
            self.notes.append(
                f"CIDEr-D of {counted(len(references), 'image')} says little: it weighs words by "
                "how few of the images have them."
            )
        self.bleu = tokenized_bleu(tokenizer, lowercase=True)
        self._by_character = tokenizer in BY_CHARACTER
        self._references = [[self._words(text) for text in texts] for texts in references]

    def _words(self, text: str) -> list[str]:
        return words_of(text, self._by_character)

    def cider_d(self, texts: Sequence[str]) -> list[float]:
        """The score of each caption, from 0 to 10."""
        return CiderD(self._references).scores(list(map(self._words, texts)))

    def matches(self, texts: Sequence[str]) -> list[bool]:
        """Whether each caption is one of its references, but for case and punctuation."""
        pairs = zip(map(self._words, texts), self._references, strict=True)
        return [words in references for words, references in pairs]

    def compare(self, images: Sequence[ImageExample], texts: Sequence[str]) -> list[ScoredCaption]:
        """The captions of all images with their scores."""
        rows = zip(images, texts, self.cider_d(texts), self.matches(texts), strict=True)
        return [
            ScoredCaption(image.source, image.captions, text, score, image, is_match)
            for image, text, score, is_match in rows
        ]


def examine_captions(captions: Sequence[ScoredCaption], num_held_out: int) -> Examination:
    """The best and worst of these captions of held-out images."""
    note = of_rows(len(captions), num_held_out, "image") + " Greedy captions."
    return answers.examine_answers(captions, "caption", "mean CIDEr-D / 10", note)
