"""Word vectors: tell the neighbours of each word from random words (skip-gram).

    loss = −log σ(v_c · u_o) − k · mean over r of log σ(−v_c · u_r)

c is a word, o one of its neighbours, r are k random words (`scores.py` has the details).
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import open_tokens
from glassformer.data.rows import Array
from glassformer.errors import GlassformerError
from glassformer.inspect.chapters import Chapter, Examination
from glassformer.inspect.words import Lexicon
from glassformer.models.word_vectors import WordVectors
from glassformer.nn.loss import negative_sampling_loss
from glassformer.preprocessing.skip_gram import (
    SkipGram,
    SkipGramBatch,
    SkipGramConfig,
    SkipGramPreprocessing,
    are_words,
)
from glassformer.progress import Notify
from glassformer.tasks import text_windows
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Command, Defaults, Objective, Task
from glassformer.tasks.word_vectors import scores
from glassformer.tasks.word_vectors.predictor import WordVectorsPredictor
from glassformer.text.tokenizer_training import TokenizerConfig
from glassformer.wording import counted

TOKENIZER = TokenizerConfig(kind="word", lowercase=True)  # where the recipe leaves it open
NEAR = 5  # neighbours of a word in samples and in the report
EXAMPLES = 24  # words in the report
COMMON = 150  # words: the most frequent ones have many meanings and no telling neighbours
COUNTED = 2**24  # tokens at a time


class WordVectorsRecipe(text_windows.TextRecipe):
    """A recipe for plain text, and which words of it are neighbours."""

    objective: SkipGramConfig = SkipGramConfig()


class WordSource(text_windows.TextSource):
    """The words of two files that are written already."""

    def write(self, folder: Path, recipe: Recipe, notify: Notify) -> None:
        """The tokens are there already; there must be neighbours among them."""
        tokenizer, names = self.preprocessing.tokenizer, ", ".join(recipe.data_names)
        is_word = are_words(tokenizer, tokenizer.vocab_size)
        for file, what in (
            (text_windows.TRAIN, "training text"),
            (text_windows.VALIDATION, "part held out for validation"),
        ):
            beginning = open_tokens(folder / file, tokenizer.vocab_size)[:COUNTED]
            if (count := int(is_word[beginning].sum())) < 2:
                raise GlassformerError(
                    f"{names}: the {what} has {counted(count, 'known word')}. Provide more text."
                )


def read(recipe: WordVectorsRecipe, folder: Path, notify: Notify) -> WordSource:
    settings = recipe.objective.model_dump()
    text = text_windows.read_text(
        recipe, folder, notify, TOKENIZER, SkipGramPreprocessing, settings
    )
    return WordSource(text.preprocessing, text.num_training_items, text.num_validation_items)


class WordDataset(text_windows.TextDataset):
    """Rows of text, which may be in the middle of a sentence."""

    preprocessing: SkipGramPreprocessing

    @property
    def context_length(self) -> int:
        return min(scores.ROW, max(1, self.num_items - 1))

    @cached_property
    def counts(self) -> Array:
        """(V,) how often each token occurs in the training text."""
        total = np.zeros(self.preprocessing.tokenizer.vocab_size, dtype=np.int64)
        for start in range(0, len(self.training), COUNTED):
            part = self.training[start : start + COUNTED]
            total += np.bincount(part, minlength=len(total))
        return total

    @cached_property
    def skip_gram(self) -> SkipGram:
        return SkipGram(self.preprocessing, self.counts.astype(np.float32))

    @cached_property
    def examples(self) -> Array:
        """Words to look at: frequent ones, but not the most frequent."""
        is_word = are_words(self.preprocessing.tokenizer, len(self.counts))
        order = np.argsort(-np.where(is_word, self.counts, 0), kind="stable")[: is_word.sum()]
        return order[min(COMMON, len(order) // 2) :][:EXAMPLES]


class SkipGramObjective(Objective):
    """Tell neighbours from random words."""

    dataset: WordDataset
    measures = ("loss", "accuracy")

    def initialize(self, model: WordVectors) -> None:
        model.counts[: len(self.dataset.counts)] = torch.from_numpy(self.dataset.counts).float()

    def batch(self, number: int, most: int | None = None) -> SkipGramBatch:
        windows = self.batches.batch(number, most)[:, :-1]
        return self.dataset.skip_gram.batch(windows, (self.config.seed, number), scores.NEGATIVES)

    def loss(self, model: WordVectors, batch: SkipGramBatch) -> Tensor:
        skip_gram = self.dataset.skip_gram
        pairs = scores.pairs_of(model, batch, skip_gram.window)
        return negative_sampling_loss(*pairs, skip_gram.num_negatives)

    def validate(self, model: WordVectors) -> scores.SkipGramResult:
        return scores.evaluate_skip_gram(model, self.dataset.validation, self.dataset.skip_gram)

    def sample(self, model: WordVectors, step: int) -> str:
        """A word and its neighbours."""
        words = self.dataset.examples
        word = int(words[step % len(words)]) if len(words) else 0
        return f"{self._token(word)}: {', '.join(near for near, _ in self._near(model, [word])[0])}"

    def examine(self, model: WordVectors) -> Examination:
        words = self.dataset.examples.tolist()
        rows = [
            [self._token(word), int(self.dataset.counts[word])]
            + [f"{token} {cosine:.2f}" for token, cosine in near]
            + [""] * (NEAR - len(near))
            for word, near in zip(words, self._near(model, words), strict=True)
        ]
        columns = ["word", "count", "nearest", *map(str, range(2, NEAR + 1))]
        data = {"columns": columns, "kinds": ["label", "count", *["text"] * NEAR], "rows": rows}
        note = "Frequent words and those with the most similar vectors, with the cosine."
        return Examination((Chapter("Nearest words", "table", data, note),) if rows else ())

    def _near(self, model: WordVectors, words: Sequence[int]) -> list[list[tuple[str, float]]]:
        finder = WordVectorsPredictor(model, self.dataset.preprocessing)
        lexicon: Lexicon = finder.lexicon
        neighbours = []
        for word in words:
            similar = lexicon.similarities(lexicon.vectors[word])
            near = lexicon.nearest(similar, NEAR, np.array([word])).tolist()
            neighbours.append([(self._token(id), float(similar[id])) for id in near])
        return neighbours

    def _token(self, id: int) -> str:
        return self.dataset.preprocessing.tokenizer.token(id)

    def trials(self, folder: Path | str) -> Sequence[Command]:
        words = self.dataset.examples
        word = self._token(int(words[0])) if len(words) else "WORD"
        return ("neighbours", folder, word), ("evaluate", folder, "--data", "FILE")


TASK = Task(
    recipe=WordVectorsRecipe,
    read=read,
    dataset=WordDataset,
    objective=SkipGramObjective,
    predictor=WordVectorsPredictor,
    defaults=lambda recipe: Defaults(epochs=5, optimizer="adamw", adamw=0.01, weight_decay=0.0),
)
