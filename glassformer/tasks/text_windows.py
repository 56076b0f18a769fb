"""Text to learn from, as two rows of tokens: what next-token and masked-token training share."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from glassformer.checkpoint.open import ModelPath, open_preprocessing
from glassformer.data.batches import Windows, open_tokens, write_tokens
from glassformer.data.documents import CorpusConfig, Split, columns_of, read_corpus
from glassformer.data.image_files import ImagesConfig
from glassformer.data.labels import in_order, joined, spelled_as
from glassformer.data.rows import TextPart
from glassformer.data.split import LabelledSplit
from glassformer.errors import GlassformerError, UsageError
from glassformer.machine.host import silently
from glassformer.preprocessing.images import ImageInputs
from glassformer.preprocessing.preprocessing import Preprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.recipe import Recipe, TokenizedRecipe
from glassformer.tasks.rows import sliced_batches
from glassformer.tasks.task import Batches, Dataset, Say, Source, say_data
from glassformer.text.tokenizer_training import (
    CHAR_BYTES,
    TextSample,
    TokenizerConfig,
    choose_kind,
    default_vocab_size,
    num_bytes,
    train_tokenizer,
)
from glassformer.text.tokenizers import SIZE, Tokenizer, pieces_of
from glassformer.text.word_cache import ids_of
from glassformer.text.words import ByteCount, ByteCounter
from glassformer.wording import an, counted, readable_size

# --- tokenizer of recipe ---
# The tokenizer that a recipe describes, learned from the texts of a training.


def learn_tokenizer(
    recipe: TokenizedRecipe,
    default: TokenizerConfig,
    texts: Iterable[str],
    special_tokens: Sequence[str] = (),
    prefix: str = "",
    is_rich: bool = False,
    one_in: int = 1,
    say: Callable[[str], None] = silently,
) -> Tokenizer:
    """Learn the tokenizer that the recipe describes; `default` fills in what it leaves open.

    `texts` are all texts, one in `one_in` of them, or a `TextSample`; `prefix` is put before each.
    A rich tokenizer has as many pieces as whole words would need.
    """
    given = {key: getattr(recipe.tokenizer, key) for key in TokenizerConfig.model_fields}
    config = default.model_copy(
        update={key: value for key, value in given.items() if value not in (None, "auto")}
    )
    if config.kind == "auto":
        raise TypeError("the kind is still open")
    size_of_text, known = _known_texts(texts, config.kind, say)
    kind = "word" if is_rich and config.kind != "char" else config.kind
    size = config.vocab_size or getattr(recipe.architecture(), "vocab_size", None)
    size = size or default_vocab_size(kind, one_in * size_of_text)
    return train_tokenizer(config, (prefix + text for text in known), size, special_tokens)


def _known_texts(
    texts: Iterable[str], kind: str, say: Callable[[str], None]
) -> tuple[int, Iterable[str]]:
    """The bytes of all texts, and those to learn from."""
    if not isinstance(texts, TextSample):
        if kind == "char":  # which may be many: they are read once, and their size does not matter
            return 0, texts
        texts = list(texts)
        return sum(map(num_bytes, texts)), texts
    if kind == "char":  # the characters of every text, in the sample or not
        return texts.num_bytes, ["".join(sorted(texts.alphabet))]
    if texts.is_partial:
        say(f"tokenizer: trained on a sample of {readable_size(texts.num_kept_bytes)}")
    return texts.num_bytes, texts


def decided_by_tokenizer(recipe: Any, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """The sections of a recipe as a tokenizer decides them: its own, and the model's vocab_size."""
    section = {
        "kind": tokenizer.kind,
        "vocab_size": recipe.tokenizer.vocab_size or tokenizer.vocab_size,
        "lowercase": tokenizer.folds_case,
    }
    model = {} if recipe.model.get("vocab_size") else {"vocab_size": tokenizer.vocab_size}
    return {"model": model, "tokenizer": section}


# --- kept preprocessing ---
# What a training that continues a model takes over from it: how inputs are read, its labels.

P = TypeVar("P", bound=Preprocessing)
SHOWN = 10


def kept_preprocessing(recipe: Recipe, kind: type[P]) -> P | None:
    """The preprocessing of the model that is trained further, with the tokens that are added to it;
    None if the training begins anew."""
    if recipe.finetune is None or not recipe.continues:
        return None
    start = recipe.finetune
    found = with_tokens(open_preprocessing(start.model), start.add_tokens, start.model)
    if not isinstance(found, kind):
        raise GlassformerError(
            f"{recipe.finetune.model} reads its data in another way than {an(recipe.model_name)} "
            "that is trained here, so it cannot be trained further."
        )
    return found


def kept_size(known: ImageInputs, say: Say) -> Callable[[Any], tuple[int, int]]:
    """Chooses the size of images for a model that is trained further: its own."""

    def choose(sizes: Any) -> tuple[int, int]:
        height, width = known.image_size
        if (sizes != known.image_size).any():
            say(f"note: images are resized to {height}×{width}, the size that the model reads")
        return known.image_size

    return choose


def check_size(config: ImagesConfig, known: ImageInputs) -> dict[str, Any]:
    """The channels of the images that a trained model reads; another size is an error."""
    if config.image_size not in (None, known.image_size):
        height, width = known.image_size
        raise UsageError(
            f"the model reads images of {height}×{width} pixels, and --from continues it as it is. "
            "Leave out --image-size."
        )
    if config.num_channels not in (None, known.num_channels):
        raise UsageError(
            f"the model reads images with {counted(known.num_channels, 'channel')}. Leave out "
            "data.num_channels."
        )
    return {"image_size": None, "num_channels": known.num_channels}


def with_tokens(found: Preprocessing, tokens: Sequence[str], source: ModelPath) -> Preprocessing:
    if not tokens:
        return found
    if len(found.tokenizers) != 1:
        why = "has a tokenizer for each language" if found.tokenizers else "reads no text"
        raise UsageError(
            f"{source} {why}, so its vocabulary cannot be extended. Leave out --add-tokens."
        )
    ((name, tokenizer),) = found.tokenizers.items()
    return found.changed(**{name: tokenizer.with_tokens(tokens)})


def check_spelling(names: Sequence[str], tokenizer: Tokenizer, characters: set[str]) -> None:
    """Raise if the tokenizer of a trained model cannot spell these characters."""
    if tokenizer.kind != "char":
        return
    if unknown := tokenizer.unknown_characters("".join(sorted(characters))):
        shown = ", ".join(map(repr, unknown[:SHOWN]))
        more = f" and {len(unknown) - SHOWN:,} more" if len(unknown) > SHOWN else ""
        raise GlassformerError(
            f"{', '.join(names)}: the tokenizer of the model has no token for {shown}{more}. "
            "Remove these characters, or add each of them to its vocabulary with --add-tokens."
        )


def with_kept_labels(recipe: Recipe, split: LabelledSplit[Any]) -> LabelledSplit[Any]:
    """The split with the labels of the model that is trained further, in its order."""
    if not recipe.continues:
        return split
    labels, several = tuple(recipe.model["labels"]), bool(recipe.model.get("multi_label"))
    known, names = spelled_as(labels), ", ".join(recipe.data_names)
    if unknown := in_order(label for label in split.labels if label not in known):
        raise GlassformerError(
            f"{names}: the model does not know the labels {joined(unknown, SHOWN)}. It knows "
            f"{joined(labels, SHOWN)}. Rename or remove them, or train a new head with finetune."
        )
    if split.is_multi_label and not several:
        raise GlassformerError(
            f"{names} has several labels for an example, but the model predicts only one. Train a "
            "new head with finetune."
        )
    return replace(split, labels=labels, is_multi_label=several)


# --- text windows ---

TRAIN, VALIDATION, FACTS = "train.bin", "validation.bin", "data.json"
BATCH_TOKENS = 4096
OPENING_TOKENS, OPENING_CHARACTERS = 64, 40
LITTLE = 20_000  # bytes of text; a note warns of less
SHORTEST_ROW = 8  # tokens; with fewer, hardly anything could be predicted from them


class TextRecipe(TokenizedRecipe):
    """A recipe for plain text."""

    data: CorpusConfig


@dataclass(frozen=True)
class TextSource(Source):
    """The tokens of two files that are written already, and the tokenizer that made them."""

    preprocessing: TextPreprocessing
    num_training_items: int
    num_validation_items: int

    @property
    def num_items(self) -> int:
        return self.num_training_items

    def decided(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        return decided_by_tokenizer(recipe, self.preprocessing.tokenizer)

    def write(self, folder: Path, recipe: Recipe, say: Say) -> None:
        """The tokens are there already; windows of a whole context must fit into them."""
        context, names = recipe.model["context_length"], ", ".join(recipe.data_names)
        length = row_length(recipe, self.num_items)
        if self.num_items <= length:
            few = f"{names}: the training text has {counted(self.num_items, 'token')}"
            if recipe.continues:
                raise GlassformerError(f"{few}, too few to learn from. Provide more text.")
            raise GlassformerError(
                f"{few}, fewer than one context of {context:,}. Provide more text, or pass --set "
                f"model.context_length={max(2, self.num_items // 4)}."
            )
        if length < context:
            say(
                f"note: the training text is shorter than the context of {context:,} tokens: it is "
                f"read in rows of {length:,}"
            )
        if self.num_validation_items < 2:
            raise GlassformerError(
                f"{names}: the part held out for validation has "
                f"{counted(self.num_validation_items, 'token')}. Provide more text."
            )


def row_length(recipe: Recipe, num_items: int) -> int:
    """Tokens in a row of a batch: a whole context. That of a model which is trained further cannot
    be changed, so a text that is shorter is read in rows of a quarter of it."""
    context = int(recipe.model["context_length"])
    if num_items > context or not recipe.continues:
        return context
    return min(context, max(SHORTEST_ROW, num_items // 4))


def read_text(
    recipe: TextRecipe,
    folder: Path,
    say: Say,
    default: TokenizerConfig,
    preprocessing: type[TextPreprocessing],
    settings: Mapping[str, Any],
    special_tokens: Sequence[str] = (),
) -> TextSource:
    """Read the documents of a recipe, learn its tokenizer (`default` fills in what it leaves open),
    and encode both parts into files. `settings` are values of the preprocessing."""
    known = kept_preprocessing(recipe, preprocessing) if recipe.keeps_tokenizer else None
    split = read_corpus(recipe.data, recipe.training.seed, folder)
    _report(recipe, split, say)
    if known is None:
        tokenizer = _learned(recipe, split, say, default, special_tokens)
    else:
        tokenizer = known.tokenizer
        _check_characters(recipe, split, tokenizer)
    counter = ByteCounter(tokenizer)
    parts = {TRAIN: split.training.texts()}
    parts[VALIDATION] = map(counter.passing, split.validation.texts())
    numbers = []
    for name, texts in parts.items():
        with (folder / name).open("wb") as file:
            numbers.append(write_tokens(file, ids_of(texts, tokenizer)))
    size = counter.count
    if known is not None and size.unknown:
        say(
            f"note: {size.unknown / size.total:.1%} of the held-out text are words that the "
            "vocabulary of the model does not have"
        )
    facts = {"validation_bytes": size.total, "validation_unknown_bytes": size.unknown}
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
    kept = {key: getattr(recipe.data, key) for key in ("text_column", "chat_template")}
    if known is not None:
        return TextSource(known.changed(**settings, **kept), *numbers)
    return TextSource(preprocessing(tokenizer=tokenizer, **settings, **kept), *numbers)


def _check_characters(recipe: TextRecipe, split: Split, tokenizer: Tokenizer) -> None:
    """Raise if a text has characters that the tokenizer of a trained model cannot spell."""
    if tokenizer.kind == "char":
        parts = (split.training, split.validation)
        found = {character for part in parts for piece in _pieces(part) for character in {*piece}}
        check_spelling(recipe.data_names, tokenizer, found)


def _learned(
    recipe: TextRecipe,
    split: Split,
    say: Say,
    default: TokenizerConfig,
    special_tokens: Sequence[str],
) -> Tokenizer:
    kinds = (recipe.tokenizer.kind, default.kind)
    is_open = kinds == ("auto", "auto")
    may_be_char = "char" in kinds or (is_open and split.training.num_bytes < CHAR_BYTES)
    sample = _sample(split.training, may_be_char)
    if may_be_char:  # held-out text only adds characters to the vocabulary
        for piece in _pieces(split.validation):
            sample.alphabet.update(piece)
    if is_open:
        kind, reason = choose_kind(sample.num_bytes, len(sample.alphabet))
        say(reason)
        default = TokenizerConfig(kind=kind)
    return learn_tokenizer(recipe, default, sample, special_tokens, say=say)


def _sample(part: TextPart, needs_alphabet: bool) -> TextSample:
    sizes = part.sizes
    if not needs_alphabet and sizes.max() <= SIZE:  # each text is one piece
        return TextSample.of_sizes(sizes, partial(_texts, part))
    sample = TextSample(needs_alphabet=needs_alphabet)
    for piece in _pieces(part):
        sample.add(piece)
    return sample


def _texts(part: TextPart, every: int) -> Iterator[str]:
    return ("".join(text.parts) for text in part.texts(every))


def _pieces(part: TextPart) -> Iterator[str]:
    return (piece for text in part.texts() for piece in pieces_of(text.parts))


def _report(recipe: TextRecipe, split: Split, say: Say) -> None:
    num_bytes = split.training.num_bytes
    amount = f"{readable_size(num_bytes)} in {counted(len(split.training), 'document')}"
    say_data(amount, split, say, columns_of(recipe.data))
    if num_bytes < LITTLE:
        say(
            f"note: {readable_size(num_bytes)} is very little text: the model will memorise it "
            "rather than learn from it"
        )


class TextDataset(Dataset):
    """Two rows of tokens, memory-mapped: one to learn from, one held out."""

    preprocessing: TextPreprocessing

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        super().__init__(folder, recipe)
        size = self.preprocessing.tokenizer.vocab_size
        self.training = open_tokens(folder / TRAIN, size)
        self.validation = open_tokens(folder / VALIDATION, size)
        facts = json.loads((folder / FACTS).read_text())
        self.validation_size = ByteCount(
            facts["validation_bytes"], facts.get("validation_unknown_bytes", 0)
        )
        """Size of the held-out text, for bits per byte."""

    @property
    def context_length(self) -> int:
        """Tokens in a row of a batch."""
        return row_length(self.recipe, self.num_items)

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

    def batches(self, batch_size: int, seed: int) -> Batches:
        """Batches of windows (B, T + 1)."""
        windows = Windows(self.training, self.window_length, seed)
        per_epoch = self.num_items / (batch_size * self.items_per_row)
        return sliced_batches(windows.__getitems__, batch_size, per_epoch)

    def describe(self) -> str:
        return (
            f"{counted(self.num_items, 'token')} for training, {self.num_validation_items:,} held "
            "out; nothing is truncated"
        )

    def opening(self) -> str:
        """The first words of the held-out text: a prompt that the model has not seen."""
        tokenizer = self.preprocessing.tokenizer
        ids = self.validation[:OPENING_TOKENS].tolist()
        text = tokenizer.decode([id for id in ids if id != tokenizer.unknown])
        words = re.search(r"\S+([^\S\n]+\S+){0,2}", text)
        return words[0][:OPENING_CHARACTERS] if words else ""
