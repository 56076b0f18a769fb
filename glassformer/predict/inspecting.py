"""Looking inside models that read text: the views that all of them share."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from glassformer.inspection.inspection import Inspection
from glassformer.inspection.over_time import OverTime
from glassformer.inspection.text_views import AblationView, HeadsView, LensView, PredictionView
from glassformer.predict.over_time import LooksBack
from glassformer.predict.predictor import View

TEXT_VIEWS: dict[str, View] = {
    "story": View("inspect", "all of it on one page"),
    "heads": View("heads", "what each head attends to"),
    "ablation": View("ablation", "how the prediction changes without each head"),
    "prediction": View("prediction", "what is predicted at each position"),
    "over-time": View("inspect_over_time", "the same through the training of the model"),
}

TOKEN_VIEWS = TEXT_VIEWS | {"lens": View("lens", "what each layer would predict")}


class InspectsText(LooksBack):
    """A predictor whose model reads text and can be looked into."""

    views: ClassVar[Mapping[str, View]] = TEXT_VIEWS
    usual_view: ClassVar[str | None] = "story"

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
        subject = self._with_history(self._subject(text, **options))
        return Inspection(subject, layers, heads)

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


class InspectsTokens(InspectsText):
    """The same for a model that predicts a token at each position."""

    views: ClassVar[Mapping[str, View]] = TOKEN_VIEWS

    def lens(self, text: str) -> LensView:
        """What the model would predict if it stopped after each layer.

        >>> print(model.lens("the quick brown").text())
        """
        return LensView(self.inspect(text))


class InspectsTranslations(InspectsTokens):
    """The same for a model that writes a translation."""

    def inspect_over_time(
        self,
        text: str,
        layer: int | None = None,
        head: int | None = None,
        target: str | None = None,
        **options: Any,
    ) -> OverTime:
        """How likely a translation was at earlier steps of the training, where the model looked for
        it, and what it wrote: `moments` has one entry for each snapshot of the run. `target` is the
        translation (default: the model's own). `layer` and `head` limit the attention that is kept.

        >>> history = model.inspect_over_time("one two three", target="three two one")
        >>> history.steps
        [0, 1, ...]
        >>> [moment.written for moment in history.moments]
        [...]
        """
        return super().inspect_over_time(text, layer, head, target=target, **options)
