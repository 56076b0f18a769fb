"""Single views of an inspection: each as text, as JSON, and for a picture."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glassformer.inspect.attribution import MEAN_VECTOR, METHODS, Attribution
from glassformer.inspect.capture import layer_names
from glassformer.inspect.heads import HeadEffects
from glassformer.inspect.inspection import Inspection, Likely
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
        """For people, on a terminal."""

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.seen!r}"

    def _repr_html_(self) -> str:
        """For notebooks: the notes and the text."""
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
        place = np.arange(len(tokens))
        distance = np.abs(place[:, None] - place)
        rows = []
        for (layer, head), each in zip(
            self.titles, weights.reshape(-1, *weights.shape[2:]), strict=True
        ):
            others = np.where(distance > 0, each, -1)  # a token that looks at itself tells little
            query, key = np.unravel_index(int(others.argmax()), others.shape)
            strongest = f"{tokens[query]!r} → {tokens[key]!r} {max(0, others[query, key]):.0%}"
            looked = float((each * distance).sum(-1).mean())
            rows.append([str(layer), str(head), strongest, f"{looked:.1f}"])
        return aligned(["layer", "head", "strongest", "mean distance"], rows)


@dataclass(frozen=True, eq=False, repr=False)
class LensView(TextView):
    """What the model would predict if it stopped after each layer."""

    @property
    def places(self) -> list[str]:
        """What each prediction is about: a token, or all of the input."""
        if self.seen.subject.predicts == "whole":
            return ["all tokens"]
        return [repr(token) for token in self.seen.tokens]

    def as_json(self) -> dict[str, Any]:
        return self.about() | {
            "lens": [[[each.__dict__ for each in place] for place in row] for row in self.seen.lens]
        }

    def text(self) -> str:
        """A row for each token, a column for each layer: the likeliest token there."""
        layers = self.seen.lens
        rows = [
            [place, *(_shown(layer[number][0]) for layer in layers)]
            for number, place in enumerate(self.places)
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
        looked_at = self.seen.focused
        return self.about() | {
            "position": looked_at.position,
            "prediction": [each.__dict__ for each in looked_at.options],
            "divergence": self.effects.divergence.tolist(),
            "change": self.effects.change.tolist(),
        }

    @property
    def _place(self) -> str:
        position = self.seen.focused.position
        return "" if position is None else f" at {self.seen.tokens[position]!r}"

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
        options = self.seen.focused.options[:3]
        return (
            f"prediction{self._place}: {', '.join(map(_shown, options))}\n"
            f"KL divergence of the prediction without each head:\n{aligned(names, rows)}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PredictionView(TextView):
    """What the model predicts at each position, and how likely what is there was."""

    def as_json(self) -> dict[str, Any]:
        return self.about() | {
            "predicts": self.seen.subject.predicts,
            "predictions": [asdict(each) for each in self.seen.predictions],
        }

    def text(self) -> str:
        return self.seen.text()


@dataclass(frozen=True, eq=False, repr=False)
class AttributionView(TextView):
    """How much each token counts for one prediction: attention and other opinions."""

    found: Attribution

    @property
    def tokens(self) -> list[str]:
        """Those of all streams, in the order of the values."""
        return [token for stream in self.seen.subject.streams for token in stream.tokens]

    def as_json(self) -> dict[str, Any]:
        found, streams = self.found, self.seen.subject.streams
        return self.about() | {
            "streams": [{"name": each.name, "tokens": each.tokens} for each in streams],
            "position": self.seen.predictions[found.prediction].position,
            "prediction": found.token,
            "logprob": found.logprob,
            "baseline": MEAN_VECTOR,
            "baseline_logprob": found.baseline_logprob,
            "num_steps": found.num_steps,
            "completeness_error": found.error,
            "attribution": {name: each.tolist() for name, each in found.methods.items()},
            "attention_gradient_of_heads": None
            if found.heads is None
            else {name: values.tolist() for name, values in found.heads.items()},
            "rank_correlations": [
                {"methods": list(pair), "correlation": value}
                for pair, value in found.correlations.items()
            ],
        }

    def text(self) -> str:
        """A row for each token, a column for each method."""
        found = self.found
        names = [METHODS[name] for name in found.methods]
        columns = list(found.methods.values())
        rows = [
            [repr(token), *(f"{column[place]:.4f}" for column in columns)]
            for place, token in enumerate(self.tokens)
            if found.is_read[place]
        ]
        total = float(found.integrated_gradients.sum())
        return "\n".join(
            [
                f"prediction: {found.token!r}, log-probability {found.logprob:.4f}; with "
                f"{MEAN_VECTOR} in place of every token {found.baseline_logprob:.4f}",
                aligned(["token", *names], rows),
                f"The integrated gradients sum to {total:.4f}; the difference of the "
                f"log-probabilities is {found.logprob - found.baseline_logprob:.4f} (error "
                f"{abs(found.error):.1e}, {found.num_steps} steps).",
                *self._agreement(),
            ]
        )

    def _agreement(self) -> list[str]:
        """How alike the methods order the tokens, if there are enough of them."""
        found = self.found.correlations
        if all(value is None for value in found.values()):
            return ["Too few tokens to compare the methods: three are needed to order them."]
        return [
            "Rank correlation of the sizes:",
            *(
                f"  {METHODS[a]} and {METHODS[b]}: {'none' if value is None else f'{value:.2f}'}"
                for (a, b), value in found.items()
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


def _shown(each: Likely) -> str:
    return f"{each.token!r} {percent(each.probability, 0)}"
