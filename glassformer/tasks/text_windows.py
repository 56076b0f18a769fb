"""Plain text to learn from: what language models, masked language models and word vectors share.

    files → documents → training | held out → ids → train.bin, validation.bin → windows (B, T + 1)

`read_text` makes the files, whose tokens may not fit into memory; `TextDataset` maps them. Texts
that are read one at a time are cut in `text/truncation.py`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.batches import Windows, open_tokens, write_tokens
from glassformer.data.corpus_split import Split, read_corpus
from glassformer.data.documents import CorpusConfig, columns_of
from glassformer.data.rows import TextPart
from glassformer.errors import GlassformerError
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.progress import Notify
from glassformer.tasks import fitting
from glassformer.tasks.recipe import Recipe, TokenizedRecipe
from glassformer.tasks.task import Batches, Dataset, Source, report_data
from glassformer.text.tokenizer_training import CHAR_BYTES, TextSample, TokenizerConfig, choose_kind
from glassformer.text.tokenizers import SIZE, Tokenizer, pieces_of
from glassformer.text.word_cache import ids_of
from glassformer.text.words import ByteCount, ByteCounter
from glassformer.wording import counted, readable_size

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

    def choices(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        return fitting.tokenizer_choices(recipe, self.preprocessing.tokenizer)

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
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
            notify(
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
    notify: Notify,
    default: TokenizerConfig,
    preprocessing: type[TextPreprocessing],
    settings: Mapping[str, Any],
    special_tokens: Sequence[str] = (),
) -> TextSource:
    """Read the documents of a recipe, learn its tokenizer (`default` fills in what it leaves open),
    and encode both parts into files. `settings` are values of the preprocessing."""
    trained = fitting.kept_preprocessing(recipe, preprocessing) if recipe.keeps_tokenizer else None
    split = read_corpus(recipe.data, recipe.training.seed, folder)
    _report(recipe, split, notify)
    if trained is None:
        tokenizer = _learn(recipe, split, notify, default, special_tokens)
    else:
        tokenizer = trained.tokenizer
        _check_characters(recipe, split, tokenizer)
    counter = ByteCounter(tokenizer)
    parts = {TRAIN: split.training.texts()}
    parts[VALIDATION] = map(counter.passing, split.validation.texts())
    num_tokens = []
    for name, texts in parts.items():
        with (folder / name).open("wb") as file:
            num_tokens.append(write_tokens(file, ids_of(texts, tokenizer)))
    size = counter.count
    if trained is not None and size.unknown:
        notify(
            f"note: {size.unknown / size.total:.1%} of the held-out text are words that the "
            "vocabulary of the model does not have"
        )
    facts = {"validation_bytes": size.total, "validation_unknown_bytes": size.unknown}
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
    values = {key: getattr(recipe.data, key) for key in ("text_column", "chat_template")}
    values |= settings
    if trained is not None:
        return TextSource(trained.changed(**values), *num_tokens)
    return TextSource(preprocessing(tokenizer=tokenizer, **values), *num_tokens)


def _check_characters(recipe: TextRecipe, split: Split, tokenizer: Tokenizer) -> None:
    """Raise if a text has characters that the tokenizer of a trained model cannot spell."""
    if tokenizer.kind == "char":
        parts = (split.training, split.validation)
        characters = set[str]().union(*(piece for part in parts for piece in _pieces(part)))
        fitting.check_spelling(recipe.data_names, tokenizer, characters)


def _learn(
    recipe: TextRecipe,
    split: Split,
    notify: Notify,
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
        notify(reason)
        default = TokenizerConfig(kind=kind)
    return fitting.learn_tokenizer(recipe, default, sample, special_tokens, notify=notify)


def _sample(part: TextPart, needs_alphabet: bool) -> TextSample:
    sizes = part.sizes
    if not needs_alphabet and sizes.max() <= SIZE:  # each text is one piece
        return TextSample.of_sizes(
            sizes, lambda every: ("".join(text.parts) for text in part.texts(every))
        )
    sample = TextSample(needs_alphabet=needs_alphabet)
    for piece in _pieces(part):
        sample.add(piece)
    return sample


def _pieces(part: TextPart) -> Iterator[str]:
    return (piece for text in part.texts() for piece in pieces_of(text.parts))


def _report(recipe: TextRecipe, split: Split, notify: Notify) -> None:
    num_bytes = split.training.num_bytes
    amount = f"{readable_size(num_bytes)} in {counted(len(split.training), 'document')}"
    report_data(amount, split, notify, columns_of(recipe.data))
    if num_bytes < LITTLE:
        notify(
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
        return Batches.sliced(windows.__getitems__, batch_size, per_epoch)

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
