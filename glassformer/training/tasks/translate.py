"""Translation: each word of the target from the words before it and all of the source.

    loss = mean of -log p(t_n | t_<n, source)        over the tokens of all targets and their ends

What is held out is translated now and then: BLEU decides which model is the best.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from glassformer.checkpoint.atomic import new_folder
from glassformer.checkpoint.folder import TARGET_TOKENIZER, TOKENIZER
from glassformer.data.paired import PairBatch, PairBuckets, PairedRows
from glassformer.data.pairs import Pair, PairSplit, read_pairs
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.beam import Beams
from glassformer.models.translator import Translator
from glassformer.text.framing import START
from glassformer.text.tokenizers import Tokenizer, default_vocab_size, train_tokenizer
from glassformer.training.losses import next_token_loss
from glassformer.training.recipe import Recipe, TranslateRecipe
from glassformer.training.tasks.rows import RowsTask
from glassformer.training.tasks.task import DATA, Habits, Say
from glassformer.training.translating import (
    Languages,
    bleu_of,
    hidden_and_targets,
    losses,
    translate,
)
from glassformer.wording import counted

TRAIN, VALIDATION, HELD_OUT = "train.safetensors", "validation.safetensors", "validation.jsonl"
SHORTEST, LONGEST = 64, 512  # tokens of a sentence that a model is made for, if nobody says
TRANSLATED = 500  # held-out sentences, for BLEU
GREEDY = Beams(num_beams=1)


@dataclass(frozen=True)
class TranslationQuality:
    """How well a translator did on held-out sentences."""

    loss: float
    bleu: float
    num_sentences: int

    def columns(self) -> dict[str, float]:
        return {"val_loss": self.loss, "val_bleu": self.bleu}

    def headline(self) -> str:
        return (
            f"BLEU {self.bleu:.2f} (greedy, {counted(self.num_sentences, 'sentence')}), loss "
            f"{self.loss:.4f} per token, perplexity {exp(min(self.loss, 700.0)):.3f}"
        )


@dataclass(frozen=True)
class Translate(RowsTask):
    """Teaches a translator, by pairs of sentences."""

    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None
    training: PairedRows
    validation: PairedRows
    held_out: list[Pair]

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, say: Say) -> Self:
        said = checked(recipe)
        split = read_pairs(said.data, recipe.training.seed)
        say(
            f"data: {counted(len(split.training), 'pair')} of sentences to learn from; held out: "
            f"{split.held_out}"
        )
        for note in split.notes:
            say(f"note: {note}")
        source, target = _tokenizers(said, split)
        languages = Languages(source, target or source)
        learn, check = (_encoded(languages, part) for part in (split.training, split.validation))
        # How much text there is decides the size of the model, and that, what fits into it.
        columns = dict(zip(("source_column", "target_column"), split.columns or (), strict=False))
        found = columns | {"reverse": said.data.reverse}  # by which files are read the same again
        said = said.model_copy(update={"model": said.model | found})
        sized = cls(
            recipe=said,
            said=said,
            tokenizer=source,
            target_tokenizer=target,
            training=learn,
            validation=check,
            held_out=split.validation,
        ).completed()
        context = int(sized.recipe.model["context_length"])
        training, _ = _fitting(learn, split.training, context, say)
        validation, held_out = _fitting(check, split.validation, context, say)
        with new_folder(folder / DATA) as data:
            training.save(data / TRAIN)
            validation.save(data / VALIDATION)
            lines = [json.dumps([each.source, each.target, each.place]) for each in held_out]
            (data / HELD_OUT).write_text("\n".join(lines) + "\n")
            source.save(data / TOKENIZER)
            if target is not None:
                target.save(data / TARGET_TOKENIZER)
        chosen = said.model_copy(update={"model": sized.recipe.model})  # the data is cut for it
        return replace(cls.open(sized.recipe, folder), said=chosen).completed()

    @classmethod
    def open(cls, recipe: Recipe, folder: Path) -> Self:
        data = folder / DATA
        held_out = (data / HELD_OUT).read_text(encoding="utf-8")
        is_separate = checked(recipe).tokenizer.separate
        return cls(
            recipe=recipe,
            said=recipe,
            tokenizer=Tokenizer.load(data / TOKENIZER),
            target_tokenizer=Tokenizer.load(data / TARGET_TOKENIZER) if is_separate else None,
            training=PairedRows.load(data / TRAIN),
            validation=PairedRows.load(data / VALIDATION),
            held_out=[Pair(*json.loads(line)) for line in held_out.splitlines()],
        )

    @property
    def second_tokenizer(self) -> Tokenizer | None:
        return self.target_tokenizer

    # --- how much there is ---

    @property
    def languages(self) -> Languages:
        return Languages(self.tokenizer, self.target_tokenizer or self.tokenizer)

    def items_per_batch(self, model: Any) -> int:
        return min(128, max(8, len(self.training) // 20))

    def batches(self, batch_size: int) -> PairBuckets:
        """Batches of as many tokens as so many pairs have on average."""
        most = round(batch_size * self.num_tokens / len(self.training))
        return PairBuckets(self.training, most, self.recipe.training.seed)

    def amount(self) -> str:
        return (
            f"{counted(len(self.training), 'pair')}, {self.num_tokens:,} tokens; "
            f"{len(self.validation):,} held out; {self.padding:.1%} of the batches is padding"
        )

    def facts(self) -> dict[str, Any]:
        return {
            "num_pairs": len(self.training),
            "num_validation_pairs": len(self.validation),
            "num_tokens": self.num_tokens,
            "padding": self.padding,
        }

    # --- learning ---

    @property
    def habits(self) -> Habits:
        return Habits(epochs=20, muon=4e-3, adamw=2e-3, weight_decay=0.1, ema=0.99)

    def known_of_model(self, said: dict[str, Any]) -> dict[str, Any]:
        known = super().known_of_model(said)
        if self.target_tokenizer is not None:
            known["target_vocab_size"] = self.target_tokenizer.vocab_size
        if self.said.is_open and not said.get("context_length"):
            sides = self.training.source.lengths, self.training.target.lengths
            # One stray line shall not make room that no other needs.
            longest = max(min(side.max(), 2 * np.quantile(side, 0.99)) for side in sides)
            known["context_length"] = min(LONGEST, max(SHORTEST, -(-int(longest) // 16) * 16))
        return known

    def loss(self, model: Translator, batch: PairBatch) -> Tensor:
        objective = checked(self.recipe).objective
        hidden, targets = hidden_and_targets(model, batch, objective.scheduled_sampling)
        return next_token_loss(hidden, model.head, targets, objective.label_smoothing)

    # --- judging ---

    @property
    def columns(self) -> tuple[str, ...]:
        return "val_loss", "val_bleu"

    @property
    def measure(self) -> str:
        return "bleu"

    def validate(self, model: Translator) -> TranslationQuality:
        sums, counts = zip(*losses(model, self.validation), strict=True)
        count = min(TRANSLATED, len(self.held_out))
        chosen = [number * len(self.held_out) // count for number in range(count)]
        rows = [self.validation.source.row(number).tolist() for number in chosen]
        found = translate(model, self.languages, rows, GREEDY)
        texts = [self.languages.text(best.ids) for best, *_ in found]
        right = [self.held_out[number].target for number in chosen]
        return TranslationQuality(
            loss=sum(sums) / sum(counts),
            bleu=bleu_of(texts, right)[0],
            num_sentences=len(rows),
        )

    def sample(self, model: Translator, step: int) -> str:
        """Its translation of one of the held-out sentences."""
        number = step % len(self.held_out)
        row = self.validation.source.row(number).tolist()
        ((best,),) = translate(model, self.languages, [row], GREEDY)
        return f"{self.held_out[number].source} → {self.languages.text(best.ids)}"

    def trials(self, folder: Path | str) -> Sequence[tuple[str | Path, ...]]:
        sentence = min((each.source for each in self.held_out[:20]), key=len)
        return (("translate", folder, sentence),)


def _tokenizers(recipe: TranslateRecipe, split: PairSplit) -> tuple[Tokenizer, Tokenizer | None]:
    """One for both sides, or one for each."""
    # Held-out text decides with which characters exist, and else nothing.
    known = split.training + (split.validation if recipe.tokenizer.kind == "char" else [])
    sources = [each.source for each in known]
    targets = [each.target for each in known]
    if recipe.tokenizer.separate:
        return _learned(recipe, sources), _learned(recipe, targets)
    return _learned(recipe, sources + targets), None


def _learned(recipe: TranslateRecipe, texts: list[str]) -> Tokenizer:
    config = recipe.tokenizer
    kind = "bpe" if config.kind == "auto" else config.kind
    num_bytes = sum(len(text.encode()) for text in texts)
    size = config.vocab_size or default_vocab_size(kind, num_bytes)
    chosen = config.model_copy(update={"kind": kind})
    # With a blank before its first word, as it will be read: so a word is the same everywhere.
    return train_tokenizer(chosen, (f" {text}" for text in texts), size, [START])


def _encoded(languages: Languages, pairs: list[Pair]) -> PairedRows:
    sources = languages.read([each.source for each in pairs])
    targets = languages.write([each.target for each in pairs])
    return PairedRows.of(sources, targets, "<u4")


def _fitting(
    rows: PairedRows, pairs: list[Pair], context: int, say: Say
) -> tuple[PairedRows, list[Pair]]:
    """Without the pairs that are too long for the model."""
    fits = (rows.source.lengths <= context) & (rows.target.lengths <= context + 1)
    if fits.all():
        return rows, pairs
    kept = fits.nonzero()[0]
    places = [each.place for each, is_kept in zip(pairs, fits.tolist(), strict=True) if not is_kept]
    say(
        f"note: left out because they are longer than the model's {context:,} tokens: "
        f"{counted(len(places), 'pair')} (first: {places[0]})"
    )
    if not len(kept):
        raise GlassformerError(
            "every sentence is longer than the model allows. Say a larger --set "
            "model.context_length."
        )
    return rows.taken(kept), [pairs[number] for number in kept]


def checked(recipe: Recipe) -> TranslateRecipe:
    if not isinstance(recipe, TranslateRecipe):
        raise TypeError("a recipe for another task")
    if recipe.objective.scheduled_sampling and recipe.model_name != "rnn-translator":
        raise UsageError(
            "objective.scheduled_sampling is for rnn-translator: a Transformer reads all words of "
            "the target at once."
        )
    return recipe
