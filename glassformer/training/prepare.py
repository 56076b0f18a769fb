"""From files to tokens, and from a recipe with gaps to one that decides everything.

What the recipe leaves open is chosen from the amount of text: a larger model for more of it, a
learning rate for the model's width, as many steps as the text is worth reading.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from glassformer.checkpoint.atomic import check_folder, new_folder
from glassformer.checkpoint.folder import TOKENIZER
from glassformer.data.corpus import Document, Split, read_corpus
from glassformer.data.tokens import Ids, ids_of, open_tokens, write_tokens
from glassformer.errors import GlassformerError
from glassformer.models import entry
from glassformer.runtime.host import silently
from glassformer.text.tokenizers import Tokenizer, choose_kind, default_vocab_size, train_tokenizer
from glassformer.training.recipe import Recipe, make_recipe
from glassformer.wording import counted, readable_size

Say = Callable[[str], None]

DATA = "data"
TRAIN, VALIDATION, FACTS = "train.bin", "validation.bin", "data.json"
EPOCHS = 6  # more, and a small model begins to learn the text by heart
FEWEST_STEPS, MOST_STEPS = 300, 20_000
BATCH_TOKENS = 4096
LEARNING_RATES = {"muon": 7e-3, "adamw": 3e-3}  # of models up to 128 wide
OPENING_TOKENS, OPENING_CHARACTERS = 64, 40
LITTLE = 20_000  # bytes of text below which a warning is due


@dataclass(frozen=True)
class Prepared:
    """All that a training needs: the complete recipe, the tokenizer, the two rows of tokens."""

    recipe: Recipe
    said: Recipe
    """The recipe as it was given, with its gaps."""
    tokenizer: Tokenizer
    training: Ids
    validation: Ids
    validation_bytes: int
    """UTF-8 bytes of the validation text: what bits per byte are counted over."""

    def with_steps(self, max_steps: int) -> "Prepared":
        """The same with another number of steps, and with all that was chosen for it."""
        training = self.said.training.model_copy(update={"max_steps": max_steps})
        said = self.said.model_copy(update={"training": training})
        return replace(self, recipe=_complete(said, self))

    def opening(self) -> str:
        """The first words of the held-out text: something to continue that was never learned."""
        ids = self.validation[:OPENING_TOKENS].tolist()
        text = self.tokenizer.decode([id for id in ids if id != self.tokenizer.unknown])
        words = re.search(r"\S+([^\S\n]+\S+){0,2}", text)
        return words[0][:OPENING_CHARACTERS] if words else ""


def prepare(recipe: Recipe, folder: Path, say: Say) -> Prepared:
    """Read the data, train the tokenizer, write tokens to `folder`/data, complete the recipe."""
    split = read_corpus(recipe.data, recipe.training.seed)
    num_bytes = _num_bytes(split.training)
    amount = f"{readable_size(num_bytes)} in {counted(len(split.training), 'document')}"
    say(f"data: {amount} to learn from; held out: {split.held_out}")
    if num_bytes < LITTLE:
        say(
            f"note: {readable_size(num_bytes)} of text is very little: the model will know it by "
            "heart rather than learn from it"
        )
    tokenizer = _make_tokenizer(recipe, split, num_bytes, say)
    size = tokenizer.vocab_size
    facts = {"validation_bytes": _num_bytes(split.validation)}
    with new_folder(folder / DATA) as data:
        write_tokens(data / TRAIN, ids_of(split.training, tokenizer), size)
        write_tokens(data / VALIDATION, ids_of(split.validation, tokenizer), size)
        (data / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        tokenizer.save(data / TOKENIZER)
    ready = _open(recipe, tokenizer, folder / DATA)
    return _checked(replace(ready, recipe=_complete(recipe, ready)))


def prepared(recipe: Recipe, folder: Path) -> Prepared:
    """What `prepare` left in `folder`, for a run that goes on."""
    check_folder(folder / DATA, cure="Train it anew with --force.")
    return _open(recipe, Tokenizer.load(folder / DATA / TOKENIZER), folder / DATA)


@contextmanager
def rehearsed(recipe: Recipe, say: Say = silently) -> Iterator[Prepared]:
    """As `prepare`, for a dry run: nothing is left behind."""
    with TemporaryDirectory(prefix="glassformer-") as folder:
        yield prepare(recipe, Path(folder), say)


def _open(recipe: Recipe, tokenizer: Tokenizer, data: Path) -> Prepared:
    size = tokenizer.vocab_size
    return Prepared(
        recipe=recipe,
        said=recipe,
        tokenizer=tokenizer,
        training=open_tokens(data / TRAIN, size),
        validation=open_tokens(data / VALIDATION, size),
        validation_bytes=json.loads((data / FACTS).read_text())["validation_bytes"],
    )


def _make_tokenizer(recipe: Recipe, split: Split, num_bytes: int, say: Say) -> Tokenizer:
    """`num_bytes` is the size of the text to learn from."""
    config, everything = recipe.tokenizer, split.training + split.validation
    if config.kind == "auto":
        characters = len(set().union(*(document.text for document in everything)))
        kind, reason = choose_kind(num_bytes, characters)
        say(reason)
        config = config.model_copy(update={"kind": kind})
    else:
        kind = config.kind
    size = config.vocab_size or getattr(recipe.architecture(), "vocab_size", None)
    # Held-out text decides with which characters exist, and else nothing.
    known = everything if kind == "char" else split.training
    return train_tokenizer(
        config,
        (document.text for document in known),
        size or default_vocab_size(kind, num_bytes),
    )


def _complete(recipe: Recipe, ready: Prepared) -> Recipe:
    """Fill every gap. Only what nobody said is chosen."""
    tokenizer, num_tokens = ready.tokenizer, len(ready.training)
    named = dict(recipe.model)
    if recipe.is_open:
        sizes = entry(recipe.model_name).sizes
        named["preset"] = next(name for least, name in sizes if num_tokens >= least)
    if named.get("vocab_size") is None:
        named["vocab_size"] = tokenizer.vocab_size
    values = recipe.model_dump(mode="json") | {"model": named}
    model: Any = make_recipe(values).architecture()
    values["model"] = {
        "name": recipe.model_name,
        "preset": named.get("preset"),
        **model.model_dump(mode="json"),
    }
    values["tokenizer"]["kind"] = tokenizer.kind
    values["tokenizer"]["vocab_size"] = recipe.tokenizer.vocab_size or tokenizer.vocab_size
    values["training"] = _complete_training(
        values["training"], model, num_tokens, len(ready.validation)
    )
    return make_recipe(values)


def _complete_training(
    said: dict[str, Any], model: Any, num_tokens: int, num_validation_tokens: int
) -> dict[str, Any]:
    chosen = {key: value for key, value in said.items() if value is not None}
    batch = chosen.setdefault(
        "per_device_train_batch_size", max(1, BATCH_TOKENS // model.context_length)
    )
    tokens = batch * model.context_length * chosen["gradient_accumulation_steps"]
    worth = min(MOST_STEPS, max(FEWEST_STEPS, EPOCHS * num_tokens // tokens))
    steps = chosen.setdefault("max_steps", worth)
    # Wider models want smaller steps: a rule of thumb that holds from 48 to 1,600 dimensions.
    narrow = LEARNING_RATES[chosen["optimizer"]]
    chosen.setdefault("learning_rate", round(narrow * min(1.0, (128 / model.d_model) ** 0.5), 6))
    chosen.setdefault("warmup_steps", min(100, steps // 10))
    # Reading a token costs a third of learning from it; validation may take a sixth of the time.
    affordable = round(2 * num_validation_tokens / tokens)
    chosen.setdefault("eval_steps", max(1, min(max(steps // 20, affordable), steps // 4)))
    chosen.setdefault("save_steps", max(1, steps // 10))
    return said | chosen


def _checked(found: Prepared) -> Prepared:
    """Windows of a whole context must fit into the text."""
    context = found.recipe.model["context_length"]
    names = ", ".join(found.recipe.data.paths)
    if len(found.training) <= context:
        raise GlassformerError(
            f"{names}: {len(found.training):,} tokens to learn from are fewer than one context of "
            f"{context:,}. Give more text, or say --set model.context_length="
            f"{max(2, len(found.training) // 4)}."
        )
    if len(found.validation) < 2:
        raise GlassformerError(
            f"{names}: the part held out for validation has {len(found.validation)} tokens. "
            "Give more text."
        )
    return found


def _num_bytes(documents: list[Document]) -> int:
    return sum(len(document.text.encode()) for document in documents)
