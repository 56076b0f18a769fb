"""Word vectors in use: the neighbours of a word, and a score.

The search for neighbours is that of every model with a vector for each token; what is different
here is that only words have vectors, and that those of rare words mean little.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from glassformer.data.text_files import collecting
from glassformer.errors import UsageError
from glassformer.inspect import Flags
from glassformer.models.word_vectors import WordVectors
from glassformer.nn.layers import refuse_nan
from glassformer.preprocessing.skip_gram import SkipGram, SkipGramPreprocessing
from glassformer.tasks.neighbours import RARE, NeighbourFinder, Occurrence
from glassformer.tasks.task import as_list
from glassformer.tasks.word_vectors.scores import SkipGramResult, evaluate_skip_gram
from glassformer.wording import counted


class WordVectorsPredictor(NeighbourFinder):
    """The verbs of word vectors: neighbours and evaluate."""

    verbs = ("neighbours", "evaluate")
    preprocessing_class = SkipGramPreprocessing
    model: WordVectors
    preprocessing: SkipGramPreprocessing

    def evaluate(
        self, paths: str | Sequence[str], text_column: Sequence[str] = (), encoding: str = "utf-8"
    ) -> SkipGramResult:
        """How well the vectors tell the neighbours of a word in a text from random words.

        >>> 0 <= model.evaluate("held_out.txt").accuracy <= 1
        True
        """
        if self.model.contexts is None:
            raise UsageError(
                "these word vectors cannot be evaluated: they were imported without the vectors "
                "of words as neighbours."
            )
        with collecting() as happened:
            ids, _ = self.preprocessing.read_ids(as_list(paths), text_column, encoding)
        skip_gram = SkipGram(self.preprocessing, self.model.counts.cpu().numpy())
        result = evaluate_skip_gram(self.model, ids, skip_gram)
        if not result.num_pairs:
            raise UsageError("the data contains no two neighbouring words that the model knows.")
        refuse_nan(torch.tensor(result.loss))
        return replace(result, notes=tuple(happened.notes()))

    def _candidates(self, is_word: Flags) -> Flags:
        """Words whose vector has been trained; all words, if few have or the counts are unknown."""
        is_trained: Flags = is_word & (self.model.counts.cpu().numpy() >= RARE)
        return is_trained if is_trained.sum() > RARE else is_word

    def _attend(self, occurrence: Occurrence) -> tuple[list[int], list[int]]:
        """Only words have vectors: punctuation and unknown words are left out."""
        ids, positions = occurrence.ids, occurrence.positions
        words = [n for n, id in enumerate(ids) if self._is_word[id] or n in positions]
        return [ids[n] for n in words], [words.index(n) for n in positions]

    def _locate(self, word: str, context: str) -> Occurrence:
        occurrence = super()._locate(word, context)
        if unknown := list(dict.fromkeys(self.tokenizer.unknown_words(context))):
            note = f"the context contains {counted(len(unknown), 'unknown word')}, left out: "
            occurrence.notes.append(note + ", ".join(unknown))
        return occurrence

    def _doubts(self, ids: Sequence[int]) -> list[str]:
        counts = [int(self.model.counts[id]) for id in ids]
        if not self.model.counts.any() or min(counts) >= RARE:
            return []
        times = counted(min(counts), "time")
        return [f"this word occurs only {times} in the training data: its vector means little"]
