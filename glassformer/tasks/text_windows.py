"""Text to learn from, as two rows of tokens: what next-token and masked-token training share."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.corpus import CorpusConfig, Document, Split, columns_of, read_corpus
from glassformer.data.token_windows import Ids, Windows, ids_of, open_tokens, write_tokens
from glassformer.errors import GlassformerError
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.recipe import Recipe, TokenizedRecipe, decided_by_tokenizer, learn_tokenizer
from glassformer.tasks.row_batches import SlicedBatches
from glassformer.tasks.task import Dataset, Say, Source
from glassformer.text.tokenizer_choice import TokenizerConfig, choose_kind
from glassformer.wording import counted, readable_size

TRAIN, VALIDATION, FACTS = "train.bin", "validation.bin", "data.json"
BATCH_TOKENS = 4096
OPENING_TOKENS, OPENING_CHARACTERS = 64, 40
LITTLE = 20_000  # bytes of text; a note warns of less


class TextRecipe(TokenizedRecipe):
    """A recipe for plain text."""

    data: CorpusConfig


@dataclass(frozen=True)
class TextSource(Source):
    """Tokens in two files, and the tokenizer that made them."""

    preprocessing: TextPreprocessing
    training: Ids
    validation: Ids

    @property
    def num_items(self) -> int:
        return len(self.training)

    def decided(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        return decided_by_tokenizer(recipe, self.preprocessing.tokenizer)

    def write(self, folder: Path, recipe: Recipe, say: Say) -> None:
        """The tokens are there already; windows of a whole context must fit into them."""
        context, names = recipe.model["context_length"], ", ".join(recipe.data_names)
        if self.num_items <= context:
            raise GlassformerError(
                f"{names}: the training text has {self.num_items:,} tokens, fewer than one context "
                f"of {context:,}. Provide more text, or pass --set model.context_length="
                f"{max(2, self.num_items // 4)}."
            )
        if len(self.validation) < 2:
            raise GlassformerError(
                f"{names}: the part held out for validation has {len(self.validation)} tokens. "
                "Provide more text."
            )


def read_text(
    recipe: TextRecipe,
    folder: Path,
    say: Say,
    default: TokenizerConfig,
    preprocessing: Callable[..., TextPreprocessing],
    special_tokens: Sequence[str] = (),
) -> TextSource:
    """Read the documents of a recipe, learn its tokenizer, where it leaves something open that of
    `default`, and encode both parts into files."""
    split = read_corpus(recipe.data, recipe.training.seed)
    _report(recipe, split, say)
    if recipe.tokenizer.kind == default.kind == "auto":
        everything = (document.text for document in split.training + split.validation)
        kind, reason = choose_kind(_num_bytes(split.training), len(set().union(*everything)))
        say(reason)
        default = TokenizerConfig(kind=kind)
    # Held-out text only adds characters to the vocabulary.
    is_char = "char" in (recipe.tokenizer.kind, default.kind)
    known = split.training + (split.validation if is_char else [])
    tokenizer = learn_tokenizer(recipe, default, [each.text for each in known], special_tokens)
    parts = {TRAIN: split.training, VALIDATION: split.validation}
    for name, documents in parts.items():
        write_tokens(folder / name, ids_of(documents, tokenizer), tokenizer.vocab_size)
    facts = {"validation_bytes": _num_bytes(split.validation)}
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
    training, validation = (open_tokens(folder / name, tokenizer.vocab_size) for name in parts)
    return TextSource(preprocessing(tokenizer=tokenizer), training, validation)


def _report(recipe: TextRecipe, split: Split, say: Say) -> None:
    num_bytes = _num_bytes(split.training)
    amount = f"{readable_size(num_bytes)} in {counted(len(split.training), 'document')}"
    say(f"data: {amount} for training; held out: {split.held_out}")
    for columns in columns_of(recipe.data):
        say(columns)
    if num_bytes < LITTLE:
        say(
            f"note: {readable_size(num_bytes)} of text is very little: the model will memorise it "
            "rather than learn from it"
        )


def _num_bytes(documents: Sequence[Document]) -> int:
    return sum(len(document.text.encode()) for document in documents)


class TextDataset(Dataset):
    """Two rows of tokens, memory-mapped: one to learn from, one held out."""

    preprocessing: TextPreprocessing

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        size = self.preprocessing.tokenizer.vocab_size
        self.training = open_tokens(folder / TRAIN, size)
        self.validation = open_tokens(folder / VALIDATION, size)
        facts = json.loads((folder / FACTS).read_text())
        self.validation_bytes: int = facts["validation_bytes"]
        """UTF-8 bytes of the held-out text, for bits per byte."""
        self.context_length: int = self.model_config.context_length

    @property
    def items_per_row(self) -> float:
        return float(self.context_length)

    @property
    def default_batch_size(self) -> int:
        return max(1, BATCH_TOKENS // self.context_length)

    @property
    def window_length(self) -> int:
        """Tokens of text that a model sees at once."""
        return self.context_length

    def batches(self, batch_size: int, seed: int) -> SlicedBatches:
        """Of windows (B, T + 1)."""
        windows = Windows(self.training, self.window_length, seed)
        per_epoch = self.num_items / (batch_size * self.items_per_row)
        return SlicedBatches(windows.__getitems__, batch_size, per_epoch)

    def describe(self) -> str:
        return (
            f"{self.num_items:,} tokens for training, {self.num_validation_items:,} held out; "
            "nothing is truncated"
        )

    def opening(self) -> str:
        """The first words of the held-out text: a prompt that the model has not seen."""
        tokenizer = self.preprocessing.tokenizer
        ids = self.validation[:OPENING_TOKENS].tolist()
        text = tokenizer.decode([id for id in ids if id != tokenizer.unknown])
        words = re.search(r"\S+([^\S\n]+\S+){0,2}", text)
        return words[0][:OPENING_CHARACTERS] if words else ""
