"""What classifying texts and tagging words share: rows of tokens, each with what to say of it."""

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor, nn

from glassformer.checkpoint.atomic import file_digest, new_folder
from glassformer.checkpoint.folder import TOKENIZER, WEIGHTS, load_model
from glassformer.data.sequences import Array, Batch, Buckets, Sequences, sorted_batches
from glassformer.errors import GlassformerError, UsageError
from glassformer.models.classifier import Labeller, load_body
from glassformer.models.gpt import GPTConfig
from glassformer.nn.lora import add_lora, merge_lora
from glassformer.text.framing import Frame
from glassformer.text.tokenizers import (
    Tokenizer,
    TokenizerConfig,
    default_vocab_size,
    train_tokenizer,
)
from glassformer.training.evaluate import evaluating
from glassformer.training.recipe import Recipe
from glassformer.training.sections import FinetuneConfig
from glassformer.training.tasks.rows import RowsTask
from glassformer.training.tasks.task import DATA, Habits, Say

TRAIN, VALIDATION = "train.safetensors", "validation.safetensors"
FACTS = "data.json"
LONGEST = 512  # tokens of a text that are read, if nobody says how many
FRAME = 2  # tokens that may stand around a text
READ_AT_ONCE = 8192  # tokens, with padding


@dataclass(frozen=True)
class LabelledTask(RowsTask):
    """Rows to learn from, and rows held out."""

    training: Sequences
    validation: Sequences

    @property
    def habits(self) -> Habits:
        if self.said.start is not None:
            return Habits(epochs=3, fewest_steps=200, muon=1e-3, adamw=1e-3)
        # Few examples and many words: what is seldom seen should say little (docs/encoders.md).
        return Habits(epochs=6, fewest_steps=200, muon=1e-3, adamw=2e-3, weight_decay=1.0)

    def batches(self, batch_size: int) -> Buckets:
        return Buckets(self.training.lengths, batch_size, self.recipe.training.seed)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.recipe.model["labels"])

    @property
    def num_held_out(self) -> int:
        """Examples to validate on."""
        return len(self.validation)

    def in_words(self, examples: str) -> str:
        return (
            f"{examples}, {self.num_tokens:,} tokens; {self.num_held_out:,} held out; "
            f"{self.padding:.1%} of the batches is padding"
        )

    def facts(self) -> dict[str, Any]:
        return {
            "num_examples": len(self.training),
            "num_validation_examples": self.num_held_out,
            "num_labels": len(self.labels),
            "num_tokens": self.num_tokens,
            "padding": self.padding,
        }

    def known_of_model(self, said: dict[str, Any]) -> dict[str, Any]:
        known = super().known_of_model(said)
        is_bag = self.said.model_name == "bag"  # for which a long text is as easy as a short one
        is_free = self.said.is_open and self.said.start is None and not is_bag
        if is_free and not said.get("context_length"):
            longest = int(self.training.lengths.max()) + FRAME
            known["context_length"] = min(LONGEST, -(-longest // 16) * 16)
        return known

    def items_per_batch(self, model: Any) -> int:
        return 32

    def build(self, is_fresh: bool = True) -> nn.Module:
        model = super().build(is_fresh)
        start = self.recipe.start
        if start is not None and isinstance(model, Labeller):
            if is_fresh:
                _begin_with(model, start)
            _freeze(model, start)
        return model

    def to_keep(self, model: nn.Module) -> nn.Module:
        """What LoRA has learned is folded into the matrices: what is kept is an ordinary model."""
        start = self.recipe.start
        if start is None or not start.lora_rank:
            return model
        kept = deepcopy(model)
        merge_lora(kept)
        return kept

    def learning_shares(self, model: nn.Module) -> dict[str, float] | None:
        """With layer_lr_decay d: the head learns at 1, the last layer at d, the next at d² …"""
        start = self.recipe.start
        if start is None or start.layer_lr_decay == 1 or not isinstance(model, Labeller):
            return None
        body = model.body
        depth = {name: _layer(name) for name, _ in model.named_parameters()}
        layers = max(depth.values()) + 1
        depth |= {name: layers - 1 for name in depth if "final_norm" in name.split(".")}
        inside = {id(p) for p in body.parameters()} if body is not None else set[int]()
        return {
            name: start.layer_lr_decay ** (layers - depth[name])
            for name, parameter in model.named_parameters()
            if id(parameter) in inside
        }

    @staticmethod
    def read(model: Labeller, rows: Sequences) -> Iterator[tuple[Array, Batch, Tensor]]:
        """Every row once, in batches of rows alike in length: their numbers, the batch, logits."""
        with evaluating(model):
            for numbers in sorted_batches(rows.lengths, READ_AT_ONCE):
                batch = rows.batch(numbers)
                found = model(batch.ids.to(model.device), batch.is_text.to(model.device))
                yield numbers, batch, found.float().cpu()


def frame_of(tokenizer: Tokenizer, model: Any) -> Frame:
    """How a model with this config is shown a text."""
    limit = getattr(model, "context_length", None)
    return Frame.of(tokenizer, limit, is_causal=isinstance(model, GPTConfig))


def make_tokenizer(recipe: Recipe, texts: Sequence[str], default: TokenizerConfig) -> Tokenizer:
    """That of the model to begin with, or one learned from the texts."""
    if recipe.start is not None:
        return Tokenizer.load(Path(recipe.start.model) / TOKENIZER)
    said = {key: value for key, value in recipe.tokenizer if value not in (None, "auto")}
    config = default.model_copy(update=said)
    if config.kind == "auto":
        raise TypeError("the kind is still open")
    num_bytes = sum(len(text.encode()) for text in texts)
    size = config.vocab_size or getattr(recipe.architecture(), "vocab_size", None)
    # As many pieces as for whole words: what a text is about stands in its rarer words.
    usual = default_vocab_size("char" if config.kind == "char" else "word", num_bytes)
    return train_tokenizer(config, texts, size or usual)


def write(
    folder: Path,
    training: Sequences,
    validation: Sequences,
    tokenizer: Tokenizer | None,
    facts: dict[str, Any] | None = None,
    keep_test: Callable[[Path], None] | None = None,
) -> None:
    """All that a run needs of its data; `keep_test` writes what it will be judged by at the end."""
    with new_folder(folder / DATA) as data:
        training.save(data / TRAIN)
        validation.save(data / VALIDATION)
        if tokenizer is not None:
            tokenizer.save(data / TOKENIZER)
        if facts is not None:
            (data / FACTS).write_text(json.dumps(facts) + "\n")
        if keep_test is not None:
            keep_test(data)


class SplitInWords(Protocol):
    """What is said of labelled data, whatever is labelled."""

    @property
    def test(self) -> Sequence[Any]: ...
    @property
    def held_out(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def columns(self) -> Sequence[str]: ...


def say_split(what: str, split: SplitInWords, say: Say) -> None:
    """What there is to learn from, and what else to know of the data."""
    last = f"; to be tested on, once, at the end: {len(split.test):,}" if split.test else ""
    say(f"data: {what} to learn from; held out: {split.held_out}{last}")
    for columns in split.columns:
        say(columns)
    for note in split.notes:
        say(f"note: {note}")


def balanced(counts: Tensor) -> Tensor:
    """The weight of each label, so that all weigh the same together: N / (C · N of the label)."""
    return counts.sum() / (len(counts) * counts.clamp(min=1))


def dtype_of(tokenizer: Tokenizer) -> str:
    return "<u2" if tokenizer.vocab_size <= 2**16 else "<u4"


def with_digest(recipe: Recipe) -> Recipe:
    """The recipe of a fine-tuning, with the checksum of the weights that it begins with."""
    if recipe.start is None:
        return recipe
    weights = Path(recipe.start.model) / WEIGHTS
    try:
        digest = file_digest(weights)
    except OSError as error:
        raise GlassformerError(
            f"{weights} cannot be read: {error.strerror}. Name the folder of a trained model."
        ) from None
    if recipe.start.digest not in (None, digest):
        raise GlassformerError(
            f"{weights} is not the one that finetune.digest tells of. Give the model that is "
            "meant, or leave out the digest."
        )
    start = recipe.start.model_copy(update={"digest": digest})
    return recipe.model_copy(update={"finetune": start})


def _begin_with(model: Labeller, start: FinetuneConfig) -> None:
    folder = Path(start.model)
    source = load_model(folder).model
    if start.digest not in (None, file_digest(folder / WEIGHTS)):
        raise GlassformerError(
            f"{folder / WEIGHTS} has changed since this training began. Begin anew with --force."
        )
    load_body(model, source)


def _freeze(model: Labeller, start: FinetuneConfig) -> None:
    if model.body is None:
        return
    if start.lora_rank:
        add_lora(model.body, start.lora_rank, start.lora_alpha)
    elif start.freeze:
        model.body.requires_grad_(False)
    elif start.freeze_layers:
        layers = max(_layer(name) for name, _ in model.body.named_parameters())
        if start.freeze_layers > layers:
            raise UsageError(
                f"freeze_layers is {start.freeze_layers}, and the model has {layers}. --freeze "
                "leaves all of them as they are."
            )
        for name, parameter in model.body.named_parameters():
            if _layer(name) <= start.freeze_layers and not name.startswith("final_norm"):
                parameter.requires_grad_(False)


def _layer(name: str) -> int:
    """0 for embeddings, 1 for the first block …; what stands outside the blocks is 0, too."""
    parts = name.split(".")
    return int(parts[parts.index("blocks") + 1]) + 1 if "blocks" in parts else 0
