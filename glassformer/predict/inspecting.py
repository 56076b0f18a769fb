"""Looking inside models that read text: the views that all of them share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from glassformer.inspection.capture import stacks_of
from glassformer.inspection.inspection import Inspection, Subject
from glassformer.inspection.text_views import AblationView, HeadsView, LensView, PredictionView
from glassformer.predict.predictor import Predictor, View


def has_layers(model: Any) -> bool:
    return bool(stacks_of(model))


def can_be_read_out(model: Any) -> bool:
    """Whether the states after any layer can be turned into a prediction."""
    return has_layers(model) and hasattr(model, "read_out")


TEXT_VIEWS: dict[str, View] = {
    "story": View("inspect", "all of it on one page"),
    "heads": View("heads", "what each head attends to", suits=has_layers),
    "lens": View("lens", "what each layer would predict", suits=can_be_read_out),
    "ablation": View("ablation", "how the prediction changes without each head", suits=has_layers),
    "prediction": View("prediction", "what is predicted at each position"),
}


class InspectsText(Predictor):
    """A predictor whose model reads text and can be looked into."""

    views: ClassVar[Mapping[str, View]] = TEXT_VIEWS
    usual_view: ClassVar[str | None] = "story"

    @abstractmethod
    def _subject(self, text: str) -> Subject:
        """The model with an input, as the views look at it. Keyword arguments are options."""

    def inspect(
        self,
        text: str,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        **options: Any,
    ) -> Inspection:
        """What the model computes on a text: tokens, attention, states of every layer, predictions.
        `layers` and `heads` limit the attention that is kept. For a translator, `target` is the
        translation (default: its own).

        >>> seen = model.inspect("the quick brown")
        >>> seen.tokens
        [...]
        >>> len(seen.predictions) > 0
        True
        """
        return Inspection(self._subject(text, **options), layers, heads)

    def heads(self, text: str, layer: int | None = None, head: int | None = None) -> HeadsView:
        """What each head attends to; one layer or one head of each layer, if that is given.

        >>> model.heads("the quick brown", layer=0).as_json()["attention"]
        [...]
        """
        layers, heads = (None if number is None else [number] for number in (layer, head))
        return HeadsView(self.inspect(text, layers, heads))

    def ablation(self, text: str) -> AblationView:
        """How the last prediction, or that of the first mask, changes without each head.

        >>> model.ablation("the quick brown").effects.divergence
        array(...)
        """
        seen = self.inspect(text)
        return AblationView(seen, seen.effects())

    def prediction(self, text: str) -> PredictionView:
        """What the model predicts at each position, and how likely what is there was.

        >>> print(model.prediction("the quick brown").text())
        """
        return PredictionView(self.inspect(text))

    def lens(self, text: str) -> LensView:
        """What the model would predict if it stopped after each layer.

        >>> print(model.lens("the quick brown").text())
        """
        return LensView(self.inspect(text))
