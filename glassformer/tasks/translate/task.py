"""Translation: predict each word of the target from the words before it and the whole source.

    loss = mean of -log p(t_n | t_<n, s)        over the tokens of all targets and their ends

The preceding words t_<n are the right ones (teacher forcing), but for the share of
`scheduled_sampling`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field
from torch import Tensor

from glassformer.data.batches import (
    PairBatch,
    PairBuckets,
    PairedRows,
    PairLengths,
    finish_pairs,
    write_pairs,
)
from glassformer.data.pair_files import Pair
from glassformer.data.rows import Array, in_bounded_batches
from glassformer.data.sentence_pairs import PairsConfig, PairSplit, read_pairs
from glassformer.errors import UsageError
from glassformer.inspect.chapters import Examination
from glassformer.models import row
from glassformer.models.sources import Translator
from glassformer.preprocessing.text import PairPreprocessing, TargetLength
from glassformer.progress import Notify
from glassformer.tasks import answers, fitting
from glassformer.tasks.recipe import Recipe, TokenizedRecipe
from glassformer.tasks.rows import TRAIN, RowDataset
from glassformer.tasks.task import Command, Defaults, Source, Task, report_data
from glassformer.tasks.translate import scores
from glassformer.tasks.translate.predictor import TranslatePredictor
from glassformer.text.tokenizer_training import TokenizerConfig, one_in
from glassformer.text.tokenizers import START, Tokenizer
from glassformer.wording import as_argument, counted, readable_size, shortened

VALIDATION = "validation.jsonl"
SHORTEST, LONGEST = 64, 512  # tokens of a sentence that a model is made for, by default
SHOWN = 30  # characters of a source, before its translation
TOKENIZER = TokenizerConfig(kind="bpe")  # where the recipe leaves it open


class PairTokenizerConfig(TokenizerConfig):
    """The vocabulary of two languages."""

    separate: bool = False
    """A vocabulary for each side; otherwise both share one."""


class TranslationLossConfig(answers.AnswerLossConfig):
    """The settings of the loss of translations."""

    scheduled_sampling: float = Field(0.0, ge=0, le=1)
    """Share of the preceding words that are the model's own predictions instead of the right ones,
    so that it learns to continue after a mistake (rnn-translator)."""


class TranslateRecipe(TokenizedRecipe):
    """A recipe for sentence pairs."""

    data: PairsConfig
    tokenizer: PairTokenizerConfig = PairTokenizerConfig()
    objective: TranslationLossConfig = TranslationLossConfig()


@dataclass
class TranslateSource(Source):
    """Sentence pairs in two parts. The training part is encoded in the folder of the data."""

    split: PairSplit
    preprocessing: PairPreprocessing
    lengths: PairLengths
    """The numbers of tokens of the training pairs."""

    @property
    def num_items(self) -> int:
        return int(self.lengths.source.sum() + self.lengths.target.sum())

    def choices(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        values = fitting.tokenizer_choices(recipe, self.preprocessing.tokenizer)
        target = self.preprocessing.target_tokenizer
        if target is not None and not recipe.keeps_tokenizer:
            values["model"]["target_vocab_size"] = target.vocab_size
        if recipe.is_open and not recipe.model.get("context_length"):
            values["model"]["context_length"] = answers.context_for(self.lengths, SHORTEST, LONGEST)
        return values

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        context = int(recipe.model["context_length"])
        fits = _fits(self.lengths, context, "training", self.split.training, notify)
        lengths = finish_pairs(folder / TRAIN, self.lengths, fits, self.preprocessing.dtype)
        # The end counts, the start does not: it is never written.
        longest = TargetLength.of(lengths.source, lengths.target - 1)
        longest = longest.or_longer(self.preprocessing.target_length)
        held_out = self.split.validation
        rows = scores.pair_rows(self.preprocessing, held_out)
        lengths = PairLengths(rows.source.lengths, rows.target.lengths)
        fits = _fits(lengths, context, "validation", held_out, notify)
        with (folder / VALIDATION).open("w", encoding="utf-8", newline="\n") as file:
            for pair, does_fit in zip(held_out, fits.tolist(), strict=True):
                if does_fit:
                    file.write(json.dumps(pair) + "\n")
        self.preprocessing = self.preprocessing.model_copy(update={"target_length": longest})
        # The pairs are in an open file in the folder, which some systems cannot rename then.
        del self.split


def read(recipe: TranslateRecipe, folder: Path, notify: Notify) -> TranslateSource:
    model: Any = row(recipe.model_name).model
    if recipe.objective.scheduled_sampling and not model.can_read_its_own_words:
        raise UsageError(
            f"objective.scheduled_sampling does not work with {recipe.model_name}, which reads all "
            "words of the target at once. Leave it out, or train rnn-translator."
        )
    split = read_pairs(recipe.data, recipe.training.seed, folder)
    report_data(counted(len(split.training), "sentence pair"), split, notify)
    columns: dict[str, Any] = dict(
        zip(("source_column", "target_column"), split.columns or (None, None), strict=True),
        reverse=recipe.data.reverse,
    )
    trained = (
        fitting.kept_preprocessing(recipe, PairPreprocessing) if recipe.keeps_tokenizer else None
    )
    if trained is not None:
        preprocessing = trained.changed(**columns)
        _check_characters(recipe, split, trained)
    else:
        source, target = _tokenizers(recipe, split, notify)
        preprocessing = PairPreprocessing(tokenizer=source, target_tokenizer=target, **columns)
    batches = _encoded_batches(preprocessing, split.training)
    lengths = write_pairs(folder / TRAIN, batches, preprocessing.dtype)
    return TranslateSource(split, preprocessing, lengths)


def _check_characters(
    recipe: TranslateRecipe, split: PairSplit, trained: PairPreprocessing
) -> None:
    """Raise if a sentence has characters that the tokenizers of a trained model cannot spell."""
    tokenizers = trained.source, trained.target
    if any(tokenizer.kind == "char" for tokenizer in tokenizers):
        sides = _alphabets(chain(split.training, split.validation), lowercase=False)
        for tokenizer, (alphabet,) in zip(tokenizers, sides, strict=True):
            fitting.check_spelling(recipe.data_names, tokenizer, {*alphabet})


def _encoded_batches(
    preprocessing: PairPreprocessing, pairs: Iterable[Pair]
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The ids of pairs, a bounded number of characters at a time: the tokenizer needs about 40
    bytes for each."""
    source, target = preprocessing.row_encoders()
    for batch in in_bounded_batches(pairs, lambda pair: len(pair.source) + len(pair.target)):
        yield source([pair.source for pair in batch]), target([pair.target for pair in batch])


def _fits(
    lengths: PairLengths, context: int, part: str, pairs: Sequence[Pair], notify: Notify
) -> Array:
    """Which pairs are not too long for the model."""
    fits = np.asarray((lengths.source <= context) & (lengths.target <= context + 1))
    answers.check_fits(fits, part, "pair", lambda number: pairs[number].place, context, notify)
    return fits


def _tokenizers(
    recipe: TranslateRecipe, split: PairSplit, notify: Notify
) -> tuple[Tokenizer, Tokenizer | None]:
    """One for both sides, or one for each."""
    stride = 1
    if recipe.tokenizer.kind == "char":
        # Held-out text only adds characters to the vocabulary.
        pairs = chain(split.training, split.validation)
        sources, targets = _alphabets(pairs, bool(recipe.tokenizer.lowercase))
    else:
        stride = one_in(split.num_bytes)
        sample = [*split.training[::stride]]
        sources, targets = [pair.source for pair in sample], [pair.target for pair in sample]
    if stride > 1:
        notify(f"tokenizer: trained on a sample of {readable_size(split.num_bytes // stride)}")

    def learn(texts: list[str]) -> Tokenizer:
        # With a blank before its first word, as it will be read: so a word is the same everywhere.
        return fitting.learn_tokenizer(recipe, TOKENIZER, texts, [START], prefix=" ", one_in=stride)

    if recipe.tokenizer.separate:
        return learn(sources), learn(targets)
    return learn(sources + targets), None


def _alphabets(pairs: Iterable[Pair], lowercase: bool) -> tuple[list[str], list[str]]:
    """The characters of both sides, each as one text."""
    sides = set[str](), set[str]()
    for pair in pairs:
        for alphabet, text in zip(sides, (pair.source, pair.target), strict=True):
            alphabet.update(text.lower() if lowercase else text)
    source, target = ("".join(sorted(alphabet)) for alphabet in sides)
    return [source], [target]


class TranslateDataset(RowDataset):
    """Pairs of rows to learn from, and held-out sentence pairs."""

    row_name = "pair"
    preprocessing: PairPreprocessing
    training: PairedRows

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        self.training = PairedRows.load(folder / TRAIN)
        lines = (folder / VALIDATION).read_text(encoding="utf-8").splitlines()
        self.held_out = [Pair(*json.loads(line)) for line in lines]

    @cached_property
    def validation(self) -> PairedRows:
        return scores.pair_rows(self.preprocessing, self.held_out)

    @property
    def amount(self) -> str:
        return counted(len(self.training), "pair")

    @property
    def default_batch_size(self) -> int:
        return min(128, max(8, len(self.training) // 20))

    def buckets(self, batch_size: int, seed: int) -> PairBuckets:
        """Batches of as many tokens as `batch_size` pairs have on average."""
        return PairBuckets(self.training, round(batch_size * self.items_per_row), seed)


class TranslateObjective(answers.AnswerObjective):
    """Translate sentences."""

    dataset: TranslateDataset
    measures = ("loss", "bleu")

    def loss(self, model: Translator, batch: PairBatch, **options: Any) -> Tensor:
        if own_share := self.recipe.objective.scheduled_sampling:
            options["own_share"] = own_share
        return super().loss(model, batch, **options)

    def validate(self, model: Translator) -> scores.TranslationResult:
        data, numbers = self.dataset, self.validated_numbers()
        references = [data.held_out[number].target for number in numbers]
        return scores.evaluate_translation(
            model, data.validation, references, lambda: self.write(model, numbers)
        )

    @property
    def untrained_cost(self) -> float:
        """An untrained model writes until the length limit."""
        data = self.dataset
        lengths = data.validation.source.lengths.tolist()
        longest = data.model_config.context_length
        limits = [data.preprocessing.longest_target(length, longest) for length in lengths]
        return max(1.0, float(np.mean(limits) / np.mean(data.validation.target.lengths)))

    def write(self, model: Translator, numbers: Sequence[int]) -> tuple[list[str], int]:
        data = self.dataset
        rows = [data.validation.source.row(number).tolist() for number in numbers]
        results = scores.search_translations(model, data.preprocessing, rows, answers.GREEDY)
        return answers.texts_of(data.preprocessing, results)

    def source(self, number: int) -> str:
        return shortened(self.dataset.held_out[number].source, SHOWN)

    def examine(self, model: Translator) -> Examination:
        """Some held-out sentences, translated, and where the model looked in a few of them."""
        data = self.dataset
        numbers = self.examined_numbers(model, data.validation.num_items / len(data.held_out))
        texts, _ = self.write(model, numbers)
        pairs = [data.held_out[number] for number in numbers]
        translations = scores.compare_sentences(pairs, texts)
        seen = scores.examine_translations(translations, len(data.held_out))
        aligned = scores.alignment_chapter(model, data.preprocessing, translations)
        return replace(seen, chapters=(*seen.chapters, *aligned))

    def trials(self, folder: Path | str) -> Sequence[Command]:
        sentence = min((pair.source for pair in self.dataset.held_out[:20]), key=len)
        return (("translate", folder, *as_argument(sentence)),)


TASK = Task(
    recipe=TranslateRecipe,
    read=read,
    dataset=TranslateDataset,
    objective=TranslateObjective,
    predictor=TranslatePredictor,
    defaults=lambda recipe: Defaults(epochs=20, muon=4e-3, adamw=2e-3, weight_decay=0.1, ema=0.99),
)
