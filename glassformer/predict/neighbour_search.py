"""Finding the neighbours of a word, for every model that has a vector for each token."""

import difflib
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspection.capture import capturing, stacks_of
from glassformer.inspection.neighbours import Array, Flags, Lexicon, attend
from glassformer.predict.neighbours import Neighbour, Neighbours, NeighbourStep
from glassformer.predict.predictor import Predictor
from glassformer.preprocessing.skip_gram import are_words
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizers import Tokenizer

RARE = 5  # occurrences in the training data; below this, a vector has hardly been trained
SIMILAR = 3  # spellings that an error suggests
COMMON = 20_000  # words in which they are sought first

MakeStep = Callable[..., NeighbourStep]
"""A name and a vector → the step, with the words that are near there."""


class Place(NamedTuple):
    """A word in its context."""

    ids: list[int]
    """Of the whole context."""
    positions: list[int]
    """Those of the word."""
    notes: list[str]


class NeighbourFinder(Predictor):
    """A predictor that knows which words are near a word."""

    preprocessing: TextPreprocessing

    @property
    def tokenizer(self) -> Tokenizer:
        return self.preprocessing.tokenizer

    @torch.inference_mode()
    def neighbours(
        self, word: str, context: str | None = None, top: int = 10, temperature: float = 1.0
    ) -> Neighbours:
        """The `top` words nearest to a word by the cosine of their vectors. With a context that
        contains the word, also those near it after attention: without parameters, and in each layer
        of a Transformer. A higher temperature makes the weights more equal.

        >>> near = model.neighbours("fox", context="a lazy fox", top=3)
        >>> [step.name for step in near.steps][:2]
        ['alone', 'attention']
        >>> len(near.steps[0].neighbours)
        3
        """
        _check(word, context, top, temperature)
        ids, notes = self._ids_of(word), list[str]()
        if len(ids) > 1:
            pieces = ", ".join(repr(self.tokenizer.token(id)) for id in ids)
            notes.append(
                f'"{word}" is {len(ids)} tokens ({pieces}): the mean of their vectors is used'
            )
        vector = self.lexicon.vectors[ids].mean(axis=0)  # (D,)
        before = self.lexicon.similarities(vector)

        def step(name: str, vector: Array, **more: Any) -> NeighbourStep:
            similarities = self.lexicon.similarities(vector)
            near = self.lexicon.nearest(similarities, top, np.array(ids)).tolist()
            named = tuple(
                Neighbour(self.tokenizer.token(id), float(similarities[id]), float(before[id]))
                for id in near
            )
            return NeighbourStep(name, vector, named, **more)

        steps = [step("alone", vector)]
        if context is not None:
            place = self._located(word, context)
            notes += place.notes
            steps += self._in_context(step, place, temperature)
        return Neighbours(
            word, tuple(steps), context, temperature, tuple(notes + self._doubts(ids))
        )

    def _in_context(self, step: MakeStep, place: Place, temperature: float) -> list[NeighbourStep]:
        ids, positions = self._attended(place)
        words = self.lexicon.vectors[ids]  # (T, D)
        found = attend(words, words[positions].mean(axis=0), temperature)
        plain = step(
            "attention",
            found.vector,
            tokens=self._tokens(ids),
            places=tuple(positions),
            dot_products=found.dot_products,
            scores=found.scores,
            weights=found.weights,
            scale=found.scale,
        )
        return [plain, *self._layers(step, place)]

    def _attended(self, place: Place) -> tuple[list[int], list[int]]:
        """The ids of the context that attention without parameters sees, and the word's places."""
        return place.ids, place.positions

    def _layers(self, step: MakeStep, place: Place) -> list[NeighbourStep]:
        """The word after each block of a Transformer; nothing for other models."""
        stacks = list(stacks_of(self.model).values())
        if len(stacks) != 1:
            return []
        ids, first = self._framed(place.ids)
        if len(ids) > self.model.context_length:
            raise GlassformerError(
                f"the context has {len(ids):,} tokens, but the model reads at most "
                f"{self.model.context_length:,}. Use a shorter one."
            )
        with capturing(stacks[0]) as seen:
            self.model.hidden(torch.tensor([ids], device=self.model.device))
        positions = [first + each for each in place.positions]
        tokens = self._tokens(ids)
        steps = []
        states = zip(seen.hidden[1:], seen.attention, strict=True)
        for number, (hidden, attention) in enumerate(states, 1):  # (T, D), (H, T, T)
            heads = attention[:, positions].mean(axis=1)  # (H, T)
            vector = hidden[positions].mean(axis=0)
            more = {"tokens": tokens, "places": tuple(positions), "heads": heads}
            steps.append(step(f"layer {number}", vector, weights=heads.mean(axis=0), **more))
        return steps

    def _framed(self, ids: list[int]) -> tuple[list[int], int]:
        """The ids as the model reads them, and the place of the first."""
        return ids, 0

    def _tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self.tokenizer.token, ids))

    @cached_property
    def lexicon(self) -> Lexicon:
        """The vectors of all tokens."""
        vectors = self.model.token_vectors.detach().float().cpu().numpy()
        return Lexicon(vectors, self._candidates(self._is_word))

    @cached_property
    def _is_word(self) -> Flags:
        """(V,)"""
        return are_words(self.tokenizer, len(self.model.token_vectors))

    def _candidates(self, is_word: Flags) -> Flags:
        """Which tokens may be named as neighbours."""
        return is_word

    def _doubts(self, ids: Sequence[int]) -> list[str]:
        """What to know about the vectors of these tokens."""
        return []

    def _ids_of(self, word: str) -> list[int]:
        """The tokens of a word that stands alone: in the middle of a text, if there is such one."""
        blank = " " if self.tokenizer.carries_blanks else ""
        ids = self.tokenizer.encode(blank + word.strip())
        if not ids:
            raise UsageError(f'"{word}" contains no word.')
        if self.tokenizer.unknown in ids:
            raise UsageError(self._unknown(next(self.tokenizer.unknown_words(word), word)))
        return ids

    def _unknown(self, word: str) -> str:
        """The sentence about a word without a vector, with similar spellings."""
        size = len(self.lexicon.candidates)
        said = f'"{word}" is not among the {size:,} words of this model.'
        near = self._similar(word, COMMON) or self._similar(word, size)
        if not near:
            return f"{said} Choose another one."
        *most, last = near
        return f"{said} Did you mean {', '.join(most) + ' or ' if most else ''}{last}?"

    def _similar(self, word: str, most: int) -> list[str]:
        """Known words with a similar spelling, among the first of a vocabulary, which are the most
        frequent ones."""
        typed = word.lower()
        # Comparing with all of a large vocabulary would take seconds.
        words = [
            each
            for id in self.lexicon.candidates[:most].tolist()
            if abs(len(each := self.tokenizer.token(id).strip()) - len(typed)) <= 2
            and (each[:1].lower() == typed[:1] or each[-2:].lower() == typed[-2:])
        ]
        return difflib.get_close_matches(typed, words, n=SIMILAR, cutoff=0.75)

    def _located(self, word: str, context: str) -> Place:
        """The last occurrence of the word, where a model that reads from left to right has seen
        most."""
        pattern = rf"(?<!\w){re.escape(word.strip())}(?!\w)"
        exact = re.IGNORECASE if self.tokenizer.folds_case else re.NOFLAG
        found = list(re.finditer(pattern, context, exact))
        found = found or list(re.finditer(pattern, context, re.IGNORECASE))
        if not found:
            raise UsageError(f'the context does not contain the word "{word}": {context}')
        start, end = found[-1].span()
        ids, spans = self.tokenizer.encode(context), self.tokenizer.spans(context)
        positions = [
            place for place, (first, last) in enumerate(spans) if first < end and last > start
        ]
        notes = []
        if len(found) > 1:
            notes.append(f'the context contains "{word}" {len(found)} times: the last one is used')
        return Place(ids, positions, notes)


def _check(word: str, context: str | None, top: int, temperature: float) -> None:
    if not word.strip():
        raise UsageError("the word is empty.")
    if context is not None and not context.strip():
        raise UsageError("the context is empty. Pass a sentence that contains the word.")
    if top < 1:
        raise UsageError(f"top is {top}, but must be at least 1.")
    if not 0 < temperature < float("inf"):
        raise UsageError(f"temperature is {temperature}, but must be greater than 0.")
