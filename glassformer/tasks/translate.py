"""Translation: predict each word of the target from the words before it and the whole source.

    loss = mean of -log p(t_n | t_<n, source)        over the tokens of all targets and their ends

The held-out sentences are translated at every validation: BLEU decides which model is the best.
"""

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field
from torch import Tensor

from glassformer.config import Config
from glassformer.data.pair_batches import PairBatch, PairBuckets, PairedRows
from glassformer.data.pair_files import Pair
from glassformer.data.sentence_pairs import PairsConfig, PairSplit, read_pairs
from glassformer.errors import GlassformerError, UsageError
from glassformer.evaluation.losses import next_token_loss
from glassformer.evaluation.translation import (
    TranslationResult,
    evaluate_translation,
    hidden_and_targets,
    search_translations,
)
from glassformer.generation.beam_settings import Beams
from glassformer.models import row
from glassformer.models.translator import Translator
from glassformer.predict.translate import TranslatePredictor
from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.tasks.recipe import Recipe, TokenizedRecipe, decided_by_tokenizer, learn_tokenizer
from glassformer.tasks.row_batches import TRAIN, RowDataset
from glassformer.tasks.task import Command, Habits, Objective, Say, Source, Task
from glassformer.text.framing import START
from glassformer.text.tokenizer_choice import TokenizerConfig
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import counted

VALIDATION = "validation.jsonl"
SHORTEST, LONGEST = 64, 512  # tokens of a sentence that a model is made for, by default
TRANSLATED = 500  # held-out sentences, for BLEU
GREEDY = Beams(num_beams=1)
TOKENIZER = TokenizerConfig(kind="bpe")  # where the recipe leaves it open


class PairTokenizerConfig(TokenizerConfig):
    """The vocabulary of two languages."""

    separate: bool = False
    """A vocabulary for each side; otherwise both share one."""


class TranslationLossConfig(Config):
    """How translation is learned."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of the target probability spread over all tokens."""
    scheduled_sampling: float = Field(0.0, ge=0, le=1)
    """Share of the preceding words that are the model's own predictions instead of the right ones,
    so that it learns to continue after a mistake (rnn-translator)."""


class TranslateRecipe(TokenizedRecipe):
    """A recipe for sentence pairs."""

    data: PairsConfig
    tokenizer: PairTokenizerConfig = PairTokenizerConfig()
    objective: TranslationLossConfig = TranslationLossConfig()


@dataclass(frozen=True)
class TranslateSource(Source):
    """Sentence pairs in two parts, encoded whole."""

    split: PairSplit
    preprocessing: PairPreprocessing

    @cached_property
    def training(self) -> PairedRows:
        return encoded(self.preprocessing, self.split.training)

    @property
    def num_items(self) -> int:
        return self.training.num_items

    def decided(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        decides = decided_by_tokenizer(recipe, self.preprocessing.tokenizer)
        if (target := self.preprocessing.target_tokenizer) is not None:
            decides["model"]["target_vocab_size"] = target.vocab_size
        if recipe.is_open and not recipe.model.get("context_length"):
            sides = self.training.source.lengths, self.training.target.lengths
            # A single very long line must not enlarge the model for all.
            longest = max(min(side.max(), 2 * np.quantile(side, 0.99)) for side in sides)
            context = min(LONGEST, max(SHORTEST, -(-int(longest) // 16) * 16))
            decides["model"]["context_length"] = context
        return decides

    def write(self, folder: Path, recipe: Recipe, say: Say) -> None:
        context = int(recipe.model["context_length"])
        fits = _fitting(self.training, self.split.training, context, say)
        self.training.taken(fits).save(folder / TRAIN)
        held_out = self.split.validation
        fits = _fitting(encoded(self.preprocessing, held_out), held_out, context, say)
        lines = [json.dumps(astuple(held_out[number])) for number in fits]
        (folder / VALIDATION).write_text("\n".join(lines) + "\n")


def read(recipe: TranslateRecipe, folder: Path, say: Say) -> TranslateSource:
    model: Any = row(recipe.model_name).model
    if recipe.objective.scheduled_sampling and not model.can_read_its_own_words:
        raise UsageError(
            f"objective.scheduled_sampling does not work with {recipe.model_name}, which reads all "
            "words of the target at once. Leave it out, or train rnn-translator."
        )
    split = read_pairs(recipe.data, recipe.training.seed)
    say(
        f"data: {counted(len(split.training), 'sentence pair')} for training; held out: "
        f"{split.held_out}"
    )
    for note in split.notes:
        say(f"note: {note}")
    source, target = _tokenizers(recipe, split)
    source_column, target_column = split.columns or (None, None)
    preprocessing = PairPreprocessing(
        tokenizer=source,
        target_tokenizer=target,
        source_column=source_column,
        target_column=target_column,
        reverse=recipe.data.reverse,
    )
    return TranslateSource(split, preprocessing)


def encoded(preprocessing: PairPreprocessing, pairs: Sequence[Pair]) -> PairedRows:
    sources = preprocessing.encode_source([each.source for each in pairs])
    targets = preprocessing.encode_target([each.target for each in pairs])
    return PairedRows.of(sources, targets, "<u4")


def _fitting(rows: PairedRows, pairs: list[Pair], context: int, say: Say) -> Any:
    """The numbers of the pairs that are not too long for the model."""
    fits = (rows.source.lengths <= context) & (rows.target.lengths <= context + 1)
    places = [each.place for each, is_kept in zip(pairs, fits.tolist(), strict=True) if not is_kept]
    if places:
        say(
            f"note: {counted(len(places), 'pair')} left out, longer than the model's context of "
            f"{context:,} tokens (first: {places[0]})"
        )
    if len(places) == len(pairs):
        raise GlassformerError(
            "every sentence is longer than the model allows. Pass a larger --set "
            "model.context_length."
        )
    return fits.nonzero()[0]


def _tokenizers(recipe: TranslateRecipe, split: PairSplit) -> tuple[Tokenizer, Tokenizer | None]:
    """One for both sides, or one for each."""
    # Held-out text only adds characters to the vocabulary.
    known = split.training + (split.validation if recipe.tokenizer.kind == "char" else [])
    sources = [each.source for each in known]
    targets = [each.target for each in known]

    def learned(texts: list[str]) -> Tokenizer:
        # With a blank before its first word, as it will be read: so a word is the same everywhere.
        return learn_tokenizer(recipe, TOKENIZER, texts, [START], prefix=" ")

    if recipe.tokenizer.separate:
        return learned(sources), learned(targets)
    return learned(sources + targets), None


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
        return encoded(self.preprocessing, self.held_out)

    @property
    def amount(self) -> str:
        return counted(len(self.training), "pair")

    @property
    def default_batch_size(self) -> int:
        return min(128, max(8, len(self.training) // 20))

    def buckets(self, batch_size: int, seed: int) -> PairBuckets:
        """Batches of as many tokens as `batch_size` pairs have on average."""
        return PairBuckets(self.training, round(batch_size * self.items_per_row), seed)


class TranslateObjective(Objective):
    """Translate sentences."""

    dataset: TranslateDataset
    measure = "bleu"
    measures = ("loss", "bleu")

    def loss(self, model: Translator, batch: PairBatch) -> Tensor:
        config: TranslationLossConfig = self.recipe.objective
        hidden, targets = hidden_and_targets(model, batch, config.scheduled_sampling)
        return next_token_loss(hidden, model.head, targets, config.label_smoothing)

    def validate(self, model: Translator) -> TranslationResult:
        data = self.dataset
        count = min(TRANSLATED, len(data.held_out))
        chosen = [number * len(data.held_out) // count for number in range(count)]
        references = [data.held_out[number].target for number in chosen]
        return evaluate_translation(
            model, data.validation, references, lambda: self._translated(model, chosen)
        )

    def _translated(self, model: Translator, chosen: Sequence[int]) -> list[str]:
        """Greedy translations of the held-out sentences with these numbers."""
        data = self.dataset
        rows = [data.validation.source.row(number).tolist() for number in chosen]
        found = search_translations(model, data.preprocessing, rows, GREEDY)
        return [data.preprocessing.decode(best.ids) for best, *_ in found]

    def sample(self, model: Translator, step: int) -> str:
        """Its translation of one of the held-out sentences."""
        number = step % len(self.dataset.held_out)
        (text,) = self._translated(model, [number])
        return f"{self.dataset.held_out[number].source} → {text}"

    def trials(self, folder: Path | str) -> Sequence[Command]:
        sentence = min((each.source for each in self.dataset.held_out[:20]), key=len)
        return (("translate", folder, sentence),)


TASK = Task(
    recipe=TranslateRecipe,
    read=read,
    dataset=TranslateDataset,
    objective=TranslateObjective,
    predictor=TranslatePredictor,
    habits=lambda recipe: Habits(epochs=20, muon=4e-3, adamw=2e-3, weight_decay=0.1, ema=0.99),
)
