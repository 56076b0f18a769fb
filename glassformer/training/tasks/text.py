"""Text to learn from, as two rows of tokens: what next-token and masked-token training share."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from glassformer.checkpoint.atomic import new_folder
from glassformer.checkpoint.folder import TOKENIZER
from glassformer.data.corpus import Document, Split, columns_of, read_corpus
from glassformer.data.tokens import Ids, ids_of, open_tokens, write_tokens
from glassformer.errors import GlassformerError
from glassformer.text.tokenizers import (
    Tokenizer,
    TokenizerConfig,
    choose_kind,
    default_vocab_size,
    train_tokenizer,
)
from glassformer.training.recipe import Recipe, TextRecipe
from glassformer.training.tasks.task import DATA, Habits, Say, Task
from glassformer.wording import counted, readable_size

TRAIN, VALIDATION, FACTS = "train.bin", "validation.bin", "data.json"
BATCH_TOKENS = 4096
OPENING_TOKENS, OPENING_CHARACTERS = 64, 40
LITTLE = 20_000  # bytes of text below which a warning is due


@dataclass(frozen=True)
class TextTask(Task):
    """Two rows of tokens: one to learn from, one held out."""

    tokenizer: Tokenizer
    training: Ids
    validation: Ids
    validation_bytes: int
    """UTF-8 bytes of the validation text: what bits per byte are counted over."""

    special_tokens: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def prepare(cls, recipe: Recipe, folder: Path, say: Say) -> Self:
        if not isinstance(recipe, TextRecipe):
            raise TypeError("a recipe for another task")
        split = read_corpus(recipe.data, recipe.training.seed)
        num_bytes = _num_bytes(split.training)
        amount = f"{readable_size(num_bytes)} in {counted(len(split.training), 'document')}"
        say(f"data: {amount} to learn from; held out: {split.held_out}")
        for columns in columns_of(recipe.data):
            say(columns)
        if num_bytes < LITTLE:
            say(
                f"note: {readable_size(num_bytes)} of text is very little: the model will know it "
                "by heart rather than learn from it"
            )
        tokenizer = cls.make_tokenizer(recipe, split, num_bytes, say)
        size = tokenizer.vocab_size
        facts = {"validation_bytes": _num_bytes(split.validation)}
        with new_folder(folder / DATA) as data:
            write_tokens(data / TRAIN, ids_of(split.training, tokenizer), size)
            write_tokens(data / VALIDATION, ids_of(split.validation, tokenizer), size)
            (data / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
            tokenizer.save(data / TOKENIZER)
        return cls.open(recipe, folder).completed()._checked()

    @classmethod
    def open(cls, recipe: Recipe, folder: Path) -> Self:
        data = folder / DATA
        tokenizer = Tokenizer.load(data / TOKENIZER)
        return cls(
            recipe=recipe,
            said=recipe,
            tokenizer=tokenizer,
            training=open_tokens(data / TRAIN, tokenizer.vocab_size),
            validation=open_tokens(data / VALIDATION, tokenizer.vocab_size),
            validation_bytes=json.loads((data / FACTS).read_text())["validation_bytes"],
        )

    @classmethod
    def make_tokenizer(cls, recipe: Recipe, split: Split, num_bytes: int, say: Say) -> Tokenizer:
        """`num_bytes` is the size of the text to learn from."""
        everything = split.training + split.validation
        config = cls.choose_kind(recipe.tokenizer, everything, num_bytes, say)
        if config.kind == "auto":
            raise TypeError("the kind is still open")
        size = config.vocab_size or getattr(recipe.architecture(), "vocab_size", None)
        # Held-out text decides with which characters exist, and else nothing.
        known = everything if config.kind == "char" else split.training
        return train_tokenizer(
            config,
            (document.text for document in known),
            size or default_vocab_size(config.kind, num_bytes),
            cls.special_tokens,
        )

    @classmethod
    def choose_kind(
        cls, config: TokenizerConfig, documents: list[Document], num_bytes: int, say: Say
    ) -> TokenizerConfig:
        if config.kind != "auto":
            return config
        characters = len(set().union(*(document.text for document in documents)))
        kind, reason = choose_kind(num_bytes, characters)
        say(reason)
        return config.model_copy(update={"kind": kind})

    @property
    def habits(self) -> Habits:
        return Habits(epochs=6)  # more, and a small model begins to learn the text by heart

    @property
    def num_tokens(self) -> int:
        return len(self.training)

    @property
    def num_validation_tokens(self) -> int:
        return len(self.validation)

    @property
    def context_length(self) -> int:
        return int(self.recipe.model["context_length"])

    def tokens_per_item(self, model: Any) -> float:
        return float(model.context_length)

    def items_per_batch(self, model: Any) -> int:
        return max(1, BATCH_TOKENS // model.context_length)

    @cached_property
    def _batch_size(self) -> int:
        return self.recipe.decided.per_device_train_batch_size  # which reads the recipe again

    def window_numbers(self, batch: int, most: int | None) -> list[int]:
        """Of the windows in a batch, at most so many of them."""
        first = batch * self._batch_size
        return list(range(first, first + min(self._batch_size, most or self._batch_size)))

    def amount(self) -> str:
        return (
            f"{self.num_tokens:,} tokens to learn from, {self.num_validation_tokens:,} held out; "
            "nothing is truncated"
        )

    def facts(self) -> dict[str, Any]:
        return {
            "num_tokens": self.num_tokens,
            "num_validation_tokens": self.num_validation_tokens,
        }

    def opening(self) -> str:
        """The first words of the held-out text: something to continue that was never learned."""
        ids = self.validation[:OPENING_TOKENS].tolist()
        text = self.tokenizer.decode([id for id in ids if id != self.tokenizer.unknown])
        words = re.search(r"\S+([^\S\n]+\S+){0,2}", text)
        return words[0][:OPENING_CHARACTERS] if words else ""

    def _checked(self) -> Self:
        """Windows of a whole context must fit into the text."""
        context, names = self.context_length, ", ".join(self.recipe.data.names)
        if self.num_tokens <= context:
            raise GlassformerError(
                f"{names}: {self.num_tokens:,} tokens to learn from are fewer than one context of "
                f"{context:,}. Give more text, or say --set model.context_length="
                f"{max(2, self.num_tokens // 4)}."
            )
        if self.num_validation_tokens < 2:
            raise GlassformerError(
                f"{names}: the part held out for validation has {self.num_validation_tokens} "
                "tokens. Give more text."
            )
        return self


def _num_bytes(documents: Sequence[Document]) -> int:
    return sum(len(document.text.encode()) for document in documents)
