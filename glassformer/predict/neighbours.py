"""The neighbours of a word, alone and in a sentence: what was found at each step, and how it is
shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.inspection.neighbours import Array
from glassformer.tables import aligned, html_table

SHOWN_IN_A_LINE = 5  # neighbours of each layer
BAR = 20


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
    """Of the context, as this step reads it."""
    places: tuple[int, ...] = ()
    """Which of them are the word."""
    weights: Array | None = None
    """(T,) the word's attention to each token of the context; in a layer, the mean over heads."""
    dot_products: Array | None = None
    """(T,) without parameters: with the vector of each token of the context."""
    scores: Array | None = None
    """(T,) the same, divided by `scale`: the weights are their softmax."""
    scale: float | None = None
    heads: Array | None = None
    """(H, T) the weights of each head of a layer."""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name}
        if self.tokens:
            found |= {"tokens": list(self.tokens), "places": list(self.places)}
        for key in ("scale", "dot_products", "scores", "weights", "heads", "vector"):
            if (value := getattr(self, key)) is not None:
                found[key] = value if isinstance(value, float) else value.tolist()
        keys = ("word", "similarity") if self.name == "alone" else ("word", "similarity", "before")
        found["neighbours"] = [{k: getattr(n, k) for k in keys} for n in self.neighbours]
        return found


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The words near a word, at each step: alone and, with a context, after attention."""

    word: str
    steps: tuple[NeighbourStep, ...]
    context: str | None = None
    temperature: float = 1.0
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"word": self.word}
        if self.context is not None:
            found |= {"context": self.context, "temperature": self.temperature}
        return found | {"steps": [step.as_json() for step in self.steps]}

    def tables(self) -> Iterator[tuple[str, list[str], list[list[str]]]]:
        """What there is to see, as tables: a title, the columns, the rows."""
        alone, *others = self.steps
        rows = [
            [_shown(each.word), f"{each.similarity:.3f}", _bar(each.similarity)]
            for each in alone.neighbours
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
        numbers = [[] if each is None else each.tolist() for each in columns]
        rows = [
            [_shown(token), f"{dot:.3f}", f"{score:.3f}", f"{weight:.3f}", _bar(weight)]
            for token, dot, score, weight in zip(step.tokens, *numbers, strict=True)
        ]
        scale = f"/ {step.scale:.3g}"
        title = f'attention of "{self.word}" in "{self.context}", without parameters'
        yield title, ["token", "dot product", scale, "softmax", ""], rows
        moved = [
            [_shown(each.word), f"{each.similarity:.3f}", f"{each.before:.3f}"]
            for each in step.neighbours
        ]
        yield "nearest to the weighted sum", ["word", "cosine", "before"], moved

    def _layers(self, layers: Sequence[NeighbourStep]) -> tuple[str, list[str], list[list[str]]]:
        rows = []
        for step in layers:
            looked_at = ""
            if step.weights is not None:
                best = int(step.weights.argmax())
                looked_at = f"{_shown(step.tokens[best])} {step.weights[best]:.2f}"
            near = ", ".join(_shown(each.word) for each in step.neighbours[:SHOWN_IN_A_LINE])
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
