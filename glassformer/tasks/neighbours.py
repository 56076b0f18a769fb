"""The neighbours of a word: alone, in a sentence after attention, and after each layer.

    alone       v = the vector of the word                          nearest by cosine
    attention   softmax(v · contextᵀ / scale) · context             without parameters
    layer N     the state of the word after the N-th block          with queries, keys and values

Neighbours need only a vector for each token (`token_vectors`), so one implementation serves word
vectors, GPT, BERT and recurrent models; the mathematics (`inspect/words.py`) knows only arrays.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch

from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect import Array, Flags
from glassformer.inspect.capture import capturing, stacks_of
from glassformer.inspect.words import Lexicon, attend
from glassformer.preprocessing.skip_gram import are_words
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tables import aligned, html_table
from glassformer.tasks.task import Predictor
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import joined

SHOWN_IN_A_LINE = 5  # neighbours of each layer
BAR = 20  # characters
RARE = 5  # occurrences in the training data; below this, a vector has hardly been trained
SIMILAR = 3  # spellings that an error suggests
COMMON = 20_000  # words in which they are sought first


# --- what there is to see ---


@dataclass(frozen=True)
class Neighbour:
    """A word, and the cosine of its vector with the vector of the step."""

    word: str
    similarity: float
    before: float
    """The cosine of its vector with that of the word alone."""


@dataclass(frozen=True, eq=False)
class NeighbourStep:
    """The word's vector at one step, and the words that are near it there."""

    name: str
    """alone; attention: weighted by dot products, without parameters; layer N: of the model."""
    vector: Array
    """(D,)"""
    neighbours: tuple[Neighbour, ...]
    tokens: tuple[str, ...] = ()
    """The tokens of the context, as this step reads it."""
    places: tuple[int, ...] = ()
    """The positions of the word among the tokens."""
    weights: Array | None = None
    """(T,) the word's attention to each token of the context; in a layer, the mean over heads."""
    dot_products: Array | None = None
    """(T,) without parameters: with the vector of each token of the context."""
    scores: Array | None = None
    """(T,) the dot products divided by `scale`: the weights are their softmax."""
    scale: float | None = None
    heads: Array | None = None
    """(H, T) the weights of each head of a layer."""

    def as_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {"name": self.name}
        if self.tokens:
            values |= {"tokens": list(self.tokens), "places": list(self.places)}
        for key in ("scale", "dot_products", "scores", "weights", "heads", "vector"):
            if (value := getattr(self, key)) is not None:
                values[key] = value if isinstance(value, float) else value.tolist()
        keys = ("word", "similarity") if self.name == "alone" else ("word", "similarity", "before")
        values["neighbours"] = [{k: getattr(n, k) for k in keys} for n in self.neighbours]
        return values


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The words near a word, at each step: alone and, with a context, after attention."""

    word: str
    steps: tuple[NeighbourStep, ...]
    context: str | None = None
    temperature: float = 1.0
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {"word": self.word}
        if self.context is not None:
            values |= {"context": self.context, "temperature": self.temperature}
        return values | {"steps": [step.as_json() for step in self.steps]}

    def tables(self) -> Iterator[tuple[str, list[str], list[list[str]]]]:
        """Tables of the neighbours: a title, the columns, the rows."""
        alone, *others = self.steps
        rows = [
            [_shown(near.word), f"{near.similarity:.3f}", _bar(near.similarity)]
            for near in alone.neighbours
        ]
        yield f'nearest to "{self.word}" alone', ["word", "cosine", ""], rows
        layers = [step for step in others if step.dot_products is None]
        for step in others:
            if step not in layers:
                yield from self._attention(step)
        if layers:
            yield self._layers(layers)

    def _attention(self, step: NeighbourStep) -> Iterator[tuple[str, list[str], list[list[str]]]]:
        columns = [step.dot_products, step.scores, step.weights]
        numbers = [[] if column is None else column.tolist() for column in columns]
        rows = [
            [_shown(token), f"{dot:.3f}", f"{score:.3f}", f"{weight:.3f}", _bar(weight)]
            for token, dot, score, weight in zip(step.tokens, *numbers, strict=True)
        ]
        scale = f"/ {step.scale:.3g}"
        title = f'attention of "{self.word}" in "{self.context}", without parameters'
        yield title, ["token", "dot product", scale, "softmax", ""], rows
        moved = [
            [_shown(near.word), f"{near.similarity:.3f}", f"{near.before:.3f}"]
            for near in step.neighbours
        ]
        yield "nearest to the weighted sum", ["word", "cosine", "before"], moved

    def _layers(self, layers: Sequence[NeighbourStep]) -> tuple[str, list[str], list[list[str]]]:
        rows = []
        for step in layers:
            looked_at = ""
            if step.weights is not None:
                best = int(step.weights.argmax())
                looked_at = f"{_shown(step.tokens[best])} {step.weights[best]:.2f}"
            near = ", ".join(_shown(near.word) for near in step.neighbours[:SHOWN_IN_A_LINE])
            rows.append([step.name, looked_at, near])
        return "in the model, with queries, keys and values", ["state", "attends to", "near"], rows

    def text(self) -> str:
        return "\n\n".join(f"{title}\n{_table(head, rows)}" for title, head, rows in self.tables())

    __str__ = text

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return "".join(html_table([title], []) + html_table(h, r) for title, h, r in self.tables())


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Numbers on the right, but bars and lists of words on the left."""
    if head[-1] in ("", "near"):
        last = [head[-1], *(row[-1] for row in rows)]
        lines = aligned(head[:-1], (row[:-1] for row in rows)).split("\n")
        width = max(map(len, lines))
        pairs = zip(lines, last, strict=True)
        return "\n".join(f"{line.ljust(width)}  {end}".rstrip() for line, end in pairs)
    return aligned(head, rows)


def _bar(share: float) -> str:
    return "█" * round(BAR * max(0.0, share))


def _shown(token: str) -> str:
    """A token with blanks in quotes, since they would not be seen otherwise."""
    return token if token == token.strip() and token else repr(token)


# --- the search, for every model that has a vector for each token ---

MakeStep = Callable[..., NeighbourStep]
"""A name and a vector → the step, with the words that are near there."""


class Occurrence(NamedTuple):
    """A word in its context."""

    ids: list[int]
    """The tokens of the whole context."""
    positions: list[int]
    """The positions of the word among them."""
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
            occurrence = self._locate(word, context)
            notes += occurrence.notes
            steps += self._in_context(step, occurrence, temperature)
        return Neighbours(
            word, tuple(steps), context, temperature, tuple(notes + self._doubts(ids))
        )

    def _in_context(
        self, step: MakeStep, occurrence: Occurrence, temperature: float
    ) -> list[NeighbourStep]:
        ids, positions = self._attend(occurrence)
        words = self.lexicon.vectors[ids]  # (T, D)
        attention = attend(words, words[positions].mean(axis=0), temperature)
        plain = step(
            "attention",
            attention.vector,
            tokens=self._tokens(ids),
            places=tuple(positions),
            dot_products=attention.dot_products,
            scores=attention.scores,
            weights=attention.weights,
            scale=attention.scale,
        )
        return [plain, *self._layers(step, occurrence)]

    def _attend(self, occurrence: Occurrence) -> tuple[list[int], list[int]]:
        """The ids of the context that attention without parameters sees, and the word's places."""
        return occurrence.ids, occurrence.positions

    def _layers(self, step: MakeStep, occurrence: Occurrence) -> list[NeighbourStep]:
        """The word after each block of a Transformer; nothing for other models."""
        stacks = list(stacks_of(self.model).values())
        if len(stacks) != 1:
            return []
        ids, first = self._frame(occurrence.ids)
        if len(ids) > self.model.context_length:
            raise GlassformerError(
                f"the context has {len(ids):,} tokens, but the model reads at most "
                f"{self.model.context_length:,}. Use a shorter one."
            )
        with capturing(stacks[0]) as seen:
            self.model.hidden(torch.tensor([ids], device=self.model.device))
        positions = [first + position for position in occurrence.positions]
        tokens = self._tokens(ids)
        steps = []
        states = zip(seen.hidden[1:], seen.attention, strict=True)
        for number, (hidden, attention) in enumerate(states, 1):  # (T, D), (H, T, T)
            heads = attention[:, positions].mean(axis=1)  # (H, T)
            vector = hidden[positions].mean(axis=0)
            more = {"tokens": tokens, "places": tuple(positions), "heads": heads}
            steps.append(step(f"layer {number}", vector, weights=heads.mean(axis=0), **more))
        return steps

    def _frame(self, ids: list[int]) -> tuple[list[int], int]:
        """The ids as the model reads them, and the position of the first."""
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
        """(V,) whether each token is a word."""
        return are_words(self.tokenizer, len(self.model.token_vectors))

    def _candidates(self, is_word: Flags) -> Flags:
        """The tokens that may be listed as neighbours."""
        return is_word

    def _doubts(self, ids: Sequence[int]) -> list[str]:
        """Notes on the vectors of these tokens."""
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
        problem = f'"{word}" is not among the {size:,} words of this model.'
        near = self._similar(word, COMMON) or self._similar(word, size)
        if not near:
            return f"{problem} Choose another one."
        return f"{problem} Did you mean {joined(near, 'or')}?"

    def _similar(self, word: str, most: int) -> list[str]:
        """Known words with a similar spelling, among the first of a vocabulary, which are the most
        frequent ones."""
        typed = word.lower()
        # Comparing with all of a large vocabulary would take seconds.
        words = [
            token
            for id in self.lexicon.candidates[:most].tolist()
            if abs(len(token := self.tokenizer.token(id).strip()) - len(typed)) <= 2
            and (token[:1].lower() == typed[:1] or token[-2:].lower() == typed[-2:])
        ]
        return difflib.get_close_matches(typed, words, n=SIMILAR, cutoff=0.75)

    def _locate(self, word: str, context: str) -> Occurrence:
        """The last occurrence of the word, where a model that reads from left to right has seen
        most."""
        pattern = rf"(?<!\w){re.escape(word.strip())}(?!\w)"
        exact = re.IGNORECASE if self.tokenizer.folds_case else re.NOFLAG
        matches = list(re.finditer(pattern, context, exact))
        matches = matches or list(re.finditer(pattern, context, re.IGNORECASE))
        if not matches:
            raise UsageError(f'the context does not contain the word "{word}": {context}')
        start, end = matches[-1].span()
        ids, spans = self.tokenizer.encode(context), self.tokenizer.spans(context)
        positions = [n for n, (first, last) in enumerate(spans) if first < end and last > start]
        notes = []
        if len(matches) > 1:
            notes.append(
                f'the context contains "{word}" {len(matches)} times: the last one is used'
            )
        return Occurrence(ids, positions, notes)


def _check(word: str, context: str | None, top: int, temperature: float) -> None:
    if not word.strip():
        raise UsageError("the word is empty.")
    if context is not None and not context.strip():
        raise UsageError("the context is empty. Pass a sentence that contains the word.")
    if top < 1:
        raise UsageError(f"top is {top}, but must be at least 1.")
    if not 0 < temperature < float("inf"):
        raise UsageError(f"temperature is {temperature}, but must be greater than 0.")
