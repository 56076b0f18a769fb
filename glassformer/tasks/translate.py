"""Translation: predict each word of the target from the words before it and the whole source.

    loss = mean of -log p(t_n | t_<n, source)        over the tokens of all targets and their ends

The held-out sentences are translated at every validation: BLEU decides which model is the best.
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

from glassformer.config import Config
from glassformer.data.pair_batches import (
    PairBatch,
    PairBuckets,
    PairedRows,
    PairLengths,
    finish_pairs,
    write_pairs,
)
from glassformer.data.pair_files import Pair
from glassformer.data.row_files import Array
from glassformer.data.sentence_pairs import PairsConfig, PairSplit, read_pairs
from glassformer.errors import GlassformerError, UsageError
from glassformer.evaluation.chapter import Examination, affordable, spread
from glassformer.evaluation.examine_translation import (
    LEAST_SENTENCES,
    MOST_SENTENCES,
    examine_translations,
)
from glassformer.evaluation.losses import next_token_loss
from glassformer.evaluation.mistakes import PoorTranslation, sentence_chrf
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
from glassformer.predict.word_alignment import alignment_chapter
from glassformer.preprocessing.pair import PairPreprocessing, TargetLength
from glassformer.tasks.encoded_rows import in_bounded_batches
from glassformer.tasks.kept_preprocessing import check_spelling, kept_preprocessing
from glassformer.tasks.recipe import Recipe, TokenizedRecipe
from glassformer.tasks.row_batches import TRAIN, RowDataset
from glassformer.tasks.task import Command, Habits, Objective, Say, Source, Task, say_data
from glassformer.tasks.tokenizer_of_recipe import decided_by_tokenizer, learn_tokenizer
from glassformer.text.framing import START
from glassformer.text.tokenizer_sample import one_in
from glassformer.text.tokenizer_training import TokenizerConfig
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import as_argument, counted, readable_size, shortened

VALIDATION = "validation.jsonl"
SHORTEST, LONGEST = 64, 512  # tokens of a sentence that a model is made for, by default
SHOWN = 30  # characters of a source, before its translation
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


@dataclass
class TranslateSource(Source):
    """Sentence pairs in two parts. The training part is encoded in the folder of the data."""

    split: PairSplit
    preprocessing: PairPreprocessing
    lengths: PairLengths
    """Tokens of the training pairs."""

    @property
    def num_items(self) -> int:
        return int(self.lengths.source.sum() + self.lengths.target.sum())

    def decided(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        decides = decided_by_tokenizer(recipe, self.preprocessing.tokenizer)
        target = self.preprocessing.target_tokenizer
        if target is not None and not recipe.keeps_tokenizer:
            decides["model"]["target_vocab_size"] = target.vocab_size
        if recipe.is_open and not recipe.model.get("context_length"):
            # A single very long line must not enlarge the model for all.
            longest = max(min(side.max(), 2 * np.quantile(side, 0.99)) for side in self.lengths)
            context = min(LONGEST, max(SHORTEST, -(-int(longest) // 16) * 16))
            decides["model"]["context_length"] = context
        return decides

    def write(self, folder: Path, recipe: Recipe, say: Say) -> None:
        context = int(recipe.model["context_length"])
        fits = _fits(self.lengths, context)
        _check_some_fit("training", self.split.training, fits, context, say)
        kept = finish_pairs(folder / TRAIN, self.lengths, fits, self.preprocessing.dtype)
        # The end counts, the start does not: it is never written.
        known = TargetLength.of(kept.source, kept.target - 1)
        known = known.or_longer(self.preprocessing.target_length)
        held_out = self.split.validation
        rows = encoded(self.preprocessing, held_out)
        fits = _fits(PairLengths(rows.source.lengths, rows.target.lengths), context)
        _check_some_fit("validation", held_out, fits, context, say)
        with (folder / VALIDATION).open("w", encoding="utf-8", newline="\n") as file:
            for pair, is_kept in zip(held_out, fits.tolist(), strict=True):
                if is_kept:
                    file.write(json.dumps(pair) + "\n")
        self.preprocessing = self.preprocessing.model_copy(update={"target_length": known})
        # The pairs are in an open file in the folder, which some systems cannot rename then.
        del self.split


def read(recipe: TranslateRecipe, folder: Path, say: Say) -> TranslateSource:
    model: Any = row(recipe.model_name).model
    if recipe.objective.scheduled_sampling and not model.can_read_its_own_words:
        raise UsageError(
            f"objective.scheduled_sampling does not work with {recipe.model_name}, which reads all "
            "words of the target at once. Leave it out, or train rnn-translator."
        )
    split = read_pairs(recipe.data, recipe.training.seed, folder)
    say_data(counted(len(split.training), "sentence pair"), split, say)
    columns: dict[str, Any] = dict(
        zip(("source_column", "target_column"), split.columns or (None, None), strict=True),
        reverse=recipe.data.reverse,
    )
    known = kept_preprocessing(recipe, PairPreprocessing) if recipe.keeps_tokenizer else None
    if known is not None:
        preprocessing = known.changed(**columns)
        _check_characters(recipe, split, known)
    else:
        source, target = _tokenizers(recipe, split, say)
        preprocessing = PairPreprocessing(tokenizer=source, target_tokenizer=target, **columns)
    batches = _encoded_batches(preprocessing, split.training)
    lengths = write_pairs(folder / TRAIN, batches, preprocessing.dtype)
    return TranslateSource(split, preprocessing, lengths)


def _check_characters(recipe: TranslateRecipe, split: PairSplit, known: PairPreprocessing) -> None:
    """Raise if a sentence has characters that the tokenizers of a trained model cannot spell."""
    if "char" in (known.source.kind, known.target.kind):
        sides = _alphabets(chain(split.training, split.validation), lowercase=False)
        for tokenizer, (alphabet,) in zip((known.source, known.target), sides, strict=True):
            check_spelling(recipe.data_names, tokenizer, {*alphabet})


def encoded(preprocessing: PairPreprocessing, pairs: Sequence[Pair]) -> PairedRows:
    sources = preprocessing.encode_source([each.source for each in pairs])
    targets = preprocessing.encode_target([each.target for each in pairs])
    return PairedRows.of(sources, targets, "<u4")


def _encoded_batches(
    preprocessing: PairPreprocessing, pairs: Iterable[Pair]
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """The ids of pairs, a bounded number of characters at a time: the tokenizer needs about 40
    bytes for each."""
    source, target = preprocessing.row_encoders()
    for batch in in_bounded_batches(pairs, lambda pair: len(pair.source) + len(pair.target)):
        yield source([each.source for each in batch]), target([each.target for each in batch])


def _fits(lengths: PairLengths, context: int) -> Array:
    """Which pairs are not too long for the model."""
    return np.asarray((lengths.source <= context) & (lengths.target <= context + 1))


def _check_some_fit(part: str, pairs: Sequence[Pair], fits: Array, context: int, say: Say) -> None:
    """Report the pairs that are too long. Raise if all are."""
    if number := int((~fits).sum()):
        say(
            f"note: left out of {part}: {counted(number, 'pair')} longer than the model's context "
            f"of {context:,} tokens (first: {pairs[int(fits.argmin())].place})"
        )
    if not fits.any():
        raise GlassformerError(
            "every sentence is longer than the model allows. Pass a larger --set "
            "model.context_length."
        )


def _tokenizers(
    recipe: TranslateRecipe, split: PairSplit, say: Say
) -> tuple[Tokenizer, Tokenizer | None]:
    """One for both sides, or one for each."""
    every = 1
    if recipe.tokenizer.kind == "char":
        # Held-out text only adds characters to the vocabulary.
        pairs = chain(split.training, split.validation)
        sources, targets = _alphabets(pairs, bool(recipe.tokenizer.lowercase))
    else:
        every = one_in(split.num_bytes)
        known = [*split.training[::every]]
        sources, targets = [each.source for each in known], [each.target for each in known]
    if every > 1:
        say(f"tokenizer: trained on a sample of {readable_size(split.num_bytes // every)}")

    def learned(texts: list[str]) -> Tokenizer:
        # With a blank before its first word, as it will be read: so a word is the same everywhere.
        return learn_tokenizer(recipe, TOKENIZER, texts, [START], prefix=" ", one_in=every)

    if recipe.tokenizer.separate:
        return learned(sources), learned(targets)
    return learned(sources + targets), None


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

    def num_targets(self, batch: PairBatch) -> float:
        _, is_text = batch.decoder_targets
        return float(is_text.sum())

    def validate(self, model: Translator) -> TranslationResult:
        data = self.dataset
        count = min(TRANSLATED, len(data.held_out))
        chosen = [number * len(data.held_out) // count for number in range(count)]
        references = [data.held_out[number].target for number in chosen]
        return evaluate_translation(
            model, data.validation, references, lambda: self._translated(model, chosen)
        )

    @property
    def untrained_cost(self) -> float:
        """It translates until the length limit."""
        data = self.dataset
        lengths = data.validation.source.lengths.tolist()
        longest = data.model_config.context_length
        limits = [data.preprocessing.longest_target(each, longest) for each in lengths]
        return max(1.0, float(np.mean(limits) / np.mean(data.validation.target.lengths)))

    def _translated(self, model: Translator, chosen: Sequence[int]) -> tuple[list[str], int]:
        """Greedy translations of the held-out sentences with these numbers, and how many of them
        were cut off."""
        data = self.dataset
        rows = [data.validation.source.row(number).tolist() for number in chosen]
        found = [best for best, *_ in search_translations(model, data.preprocessing, rows, GREEDY)]
        texts = [data.preprocessing.decode(best.ids) for best in found]
        return texts, sum(best.finish_reason == "length" for best in found)

    def sample(self, model: Translator, step: int) -> str:
        """Its translation of one of the held-out sentences, for which a line must have room."""
        number = step % len(self.dataset.held_out)
        (text,), cut_off = self._translated(model, [number])
        source = shortened(self.dataset.held_out[number].source, SHOWN)
        return f"{source} → {text}{' …' * cut_off}"

    def examine(self, model: Translator) -> Examination:
        """Some held-out sentences, translated, and where the model looked in a few of them."""
        data = self.dataset
        num_parameters = sum(each.numel() for each in model.parameters())
        affordable_rows = affordable(num_parameters, data.validation.num_items) / max(
            1.0, data.validation.num_items / len(data.held_out)
        )
        most = max(LEAST_SENTENCES, min(MOST_SENTENCES, int(affordable_rows)))
        chosen = spread(len(data.held_out), most)
        texts, _ = self._translated(model, chosen)
        pairs = [data.held_out[number] for number in chosen]
        scores = sentence_chrf(texts, [pair.target for pair in pairs])
        found = [
            PoorTranslation(pair.source, pair.target, text, score)
            for pair, text, score in zip(pairs, texts, scores, strict=True)
        ]
        seen = examine_translations(found, len(data.held_out))
        aligned = alignment_chapter(model, data.preprocessing, found)
        return replace(seen, chapters=(*seen.chapters, *aligned))

    def trials(self, folder: Path | str) -> Sequence[Command]:
        sentence = min((each.source for each in self.dataset.held_out[:20]), key=len)
        return (("translate", folder, *as_argument(sentence)),)


TASK = Task(
    recipe=TranslateRecipe,
    read=read,
    dataset=TranslateDataset,
    objective=TranslateObjective,
    predictor=TranslatePredictor,
    habits=lambda recipe: Habits(epochs=20, muon=4e-3, adamw=2e-3, weight_decay=0.1, ema=0.99),
)
