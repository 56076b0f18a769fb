"""Single views of an inspection: each as text for a terminal, as JSON, and in a notebook.

A view is what a method of a predictor returns (`Predictor.views`), and `views.py` has a row for the
picture of each.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glassformer.inspect.attribution import MEAN_VECTOR, METHODS, Attribution
from glassformer.inspect.capture import layer_names
from glassformer.inspect.heads import HeadEffects
from glassformer.inspect.inspection import Inspection, LikelyToken
from glassformer.inspect.words import Contexts
from glassformer.tables import aligned, html_notes, html_text
from glassformer.wording import percent


@dataclass(frozen=True, eq=False, repr=False)
class TextView(ABC):
    """A part of what a model computed on a text."""

    seen: Inspection

    @property
    def notes(self) -> tuple[str, ...]:
        return self.seen.notes

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Every number of the view, unrounded."""

    @abstractmethod
    def text(self) -> str:
        """The view as text, for a terminal."""

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.seen!r}"

    def _repr_html_(self) -> str:
        """The notes and the text as HTML, for notebooks."""
        return f"{html_notes(self.notes)}{html_text(self.text())}"

    def about(self) -> dict[str, Any]:
        """The keys that the JSON of every view has."""
        subject = self.seen.subject
        return {"model": subject.model, "text": subject.text, "tokens": self.seen.tokens}


@dataclass(frozen=True, eq=False, repr=False)
class HeadsView(TextView):
    """The attention of the layers and heads that were asked for."""

    @property
    def titles(self) -> list[tuple[int, int]]:
        """(layer, head) of each map, in order."""
        capture = self.seen.capture()
        return [(layer, head) for layer in capture.layers for head in capture.heads]

    def as_json(self) -> dict[str, Any]:
        capture = self.seen.capture()
        return self.about() | {
            "layers": capture.layers,
            "heads": capture.heads,
            "attention": capture.attention.tolist(),
        }

    def text(self) -> str:
        """What each head does, in a line: the strongest weight, and the mean distance looked."""
        weights, tokens = self.seen.attention, self.seen.tokens
        positions = np.arange(len(tokens))
        distance = np.abs(positions[:, None] - positions)
        rows = []
        maps = weights.reshape(-1, *weights.shape[2:])  # (L·H, T, T)
        for (layer, head), shares in zip(self.titles, maps, strict=True):
            others = np.where(distance > 0, shares, -1)  # a token that looks at itself tells little
            query, key = np.unravel_index(int(others.argmax()), others.shape)
            strongest = f"{tokens[query]!r} → {tokens[key]!r} {max(0, others[query, key]):.0%}"
            looked = float((shares * distance).sum(-1).mean())
            rows.append([str(layer), str(head), strongest, f"{looked:.1f}"])
        return aligned(["layer", "head", "strongest", "mean distance"], rows)


@dataclass(frozen=True, eq=False, repr=False)
class LensView(TextView):
    """What the model would predict if it stopped after each layer."""

    def as_json(self) -> dict[str, Any]:
        return self.about() | {
            "lens": [[list(map(asdict, options)) for options in layer] for layer in self.seen.lens]
        }

    def text(self) -> str:
        """A row for each token, a column for each layer: the likeliest token there."""
        layers, is_whole = self.seen.lens, self.seen.subject.predicts == "whole"
        names = ["all tokens"] if is_whole else map(repr, self.seen.tokens)
        rows = [
            [name, *(_shown(layer[number][0]) for layer in layers)]
            for number, name in enumerate(names)
        ]
        return aligned(["token", *layer_names(len(layers))], rows)


@dataclass(frozen=True, eq=False, repr=False)
class AblationView(TextView):
    """How one prediction changes without each head: the last one, or that of the first mask. Of a
    model that predicts nothing, the vector of the text."""

    effects: HeadEffects

    def as_json(self) -> dict[str, Any]:
        if self.effects.change is None:
            return self.about() | {"distance": self.effects.divergence.tolist()}
        prediction = self.seen.focused
        return self.about() | {
            "position": prediction.position,
            "prediction": [asdict(option) for option in prediction.options],
            "divergence": self.effects.divergence.tolist(),
            "change": self.effects.change.tolist(),
        }

    def text(self) -> str:
        """A row for each layer, a column for each head: KL divergence in nats."""
        table = self.effects.divergence
        names = ["", *(f"head {number}" for number in range(table.shape[1]))]
        rows = [
            [f"layer {number}", *(f"{value:.4f}" for value in row)]
            for number, row in enumerate(table)
        ]
        if self.effects.change is None:
            head = "cosine distance of the vector of the text without each head:"
            return f"{head}\n{aligned(names, rows)}"
        prediction = self.seen.focused
        where = (
            "" if prediction.position is None else f" at {self.seen.tokens[prediction.position]!r}"
        )
        return (
            f"prediction{where}: {', '.join(map(_shown, prediction.options[:3]))}\n"
            f"KL divergence of the prediction without each head:\n{aligned(names, rows)}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PredictionView(TextView):
    """What the model predicts at each position, and how likely what is there was."""

    def as_json(self) -> dict[str, Any]:
        return self.about() | {
            "predicts": self.seen.subject.predicts,
            "predictions": [asdict(prediction) for prediction in self.seen.predictions],
        }

    def text(self) -> str:
        return self.seen.text()


@dataclass(frozen=True, eq=False, repr=False)
class AttributionView(TextView):
    """How much each token counts for one prediction: attention and other opinions."""

    attribution: Attribution

    @property
    def tokens(self) -> list[str]:
        """The tokens of all streams, in the order of the values."""
        return [token for stream in self.seen.subject.streams for token in stream.tokens]

    def as_json(self) -> dict[str, Any]:
        result, streams = self.attribution, self.seen.subject.streams
        return self.about() | {
            "streams": [{"name": stream.name, "tokens": stream.tokens} for stream in streams],
            "position": self.seen.predictions[result.prediction].position,
            "prediction": result.token,
            "logprob": result.logprob,
            "baseline": MEAN_VECTOR,
            "baseline_logprob": result.baseline_logprob,
            "num_steps": result.num_steps,
            "completeness_error": result.error,
            "attribution": {name: values.tolist() for name, values in result.methods.items()},
            "attention_gradient_of_heads": None
            if result.heads is None
            else {name: values.tolist() for name, values in result.heads.items()},
            "rank_correlations": [
                {"methods": list(pair), "correlation": value}
                for pair, value in result.correlations.items()
            ],
        }

    def text(self) -> str:
        """A row for each token, a column for each method."""
        result = self.attribution
        names = [METHODS[name] for name in result.methods]
        columns = list(result.methods.values())
        rows = [
            [repr(token), *(f"{column[number]:.4f}" for column in columns)]
            for number, token in enumerate(self.tokens)
            if result.is_read[number]
        ]
        total = float(result.integrated_gradients.sum())
        return "\n".join(
            [
                f"prediction: {result.token!r}, log-probability {result.logprob:.4f}; with "
                f"{MEAN_VECTOR} in place of every token {result.baseline_logprob:.4f}",
                aligned(["token", *names], rows),
                f"The integrated gradients sum to {total:.4f}; the difference of the "
                f"log-probabilities is {result.logprob - result.baseline_logprob:.4f} (error "
                f"{abs(result.error):.1e}, {result.num_steps} steps).",
                *self._agreement(),
            ]
        )

    def _agreement(self) -> list[str]:
        """How alike the methods order the tokens, if there are enough of them."""
        correlations = self.attribution.correlations
        if all(value is None for value in correlations.values()):
            return ["Too few tokens to compare the methods: three are needed to order them."]
        return [
            "Rank correlation of the sizes:",
            *(
                f"  {METHODS[a]} and {METHODS[b]}: {'none' if value is None else f'{value:.2f}'}"
                for (a, b), value in correlations.items()
            ),
        ]


@dataclass(frozen=True, eq=False, repr=False)
class ContextsView(TextView):
    """A word of the text in several sentences."""

    @property
    def contexts(self) -> Contexts:
        if self.seen.contexts is None:
            raise TypeError("nothing was compared")
        return self.seen.contexts

    def as_json(self) -> dict[str, Any]:
        return self.contexts.as_json()

    def text(self) -> str:
        return self.contexts.text()


def _shown(option: LikelyToken) -> str:
    return f"{option.token!r} {percent(option.probability, 0)}"
