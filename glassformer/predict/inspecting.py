"""Looking inside models that read text: the views that all of them share."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from glassformer.inspection.attribution import attributions
from glassformer.inspection.capture import stacks_of
from glassformer.inspection.contexts import Contexts
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.over_time import OverTime
from glassformer.inspection.text_views import (
    AblationView,
    AttributionView,
    ContextsView,
    HeadsView,
    LensView,
    PredictionView,
)
from glassformer.models.ensemble import caveat
from glassformer.nn.token_embedding import Embedding
from glassformer.predict.contexts import contexts_of
from glassformer.predict.over_time import LooksBack
from glassformer.predict.predictor import View


def has_layers(model: Any) -> bool:
    return bool(stacks_of(model))


def predicts(model: Any) -> bool:
    """Whether it has an output layer; without one, it turns texts into vectors."""
    return getattr(getattr(model, "config", None), "has_head", True)


def reads_only_vectors(model: Any) -> bool:
    """Whether all it knows of a text comes from the vectors of its tokens: a bag reads words."""
    has_vectors = any(isinstance(each, Embedding) for each in model.modules())
    return predicts(model) and has_vectors and not caveat(model)


def can_be_read_out(model: Any) -> bool:
    """Whether the states after any layer can be turned into a prediction."""
    return predicts(model) and has_layers(model) and hasattr(model, "read_out")


TEXT_VIEWS: dict[str, View] = {
    "story": View("inspect", "all of it on one page"),
    "heads": View("heads", "what each head attends to", suits=has_layers),
    "lens": View("lens", "what each layer would predict", suits=can_be_read_out),
    "ablation": View("ablation", "how the output changes without each head", suits=has_layers),
    "prediction": View("prediction", "what is predicted at each position", suits=predicts),
    "attribution": View(
        "attribution", "which tokens the prediction rests on", suits=reads_only_vectors
    ),
    "contexts": View("contexts", "a word in several sentences", suits=has_layers),
    "over-time": View(
        "inspect_over_time", "the same through the training of the model", suits=predicts
    ),
}


class InspectsText(LooksBack):
    """A predictor whose model reads text and can be looked into."""

    views: ClassVar[Mapping[str, View]] = TEXT_VIEWS
    usual_view: ClassVar[str | None] = "story"

    def inspect(
        self,
        text: str,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        compare: str | Sequence[str] = (),
        word: str | None = None,
        **options: Any,
    ) -> Inspection:
        """What the model computes on a text: tokens, attention, states of every layer, predictions.
        `layers` and `heads` limit the attention that is kept. For a translator, `target` is the
        translation (default: its own). With `compare`, the page also shows a word that the text
        shares with these sentences (see `contexts`).

        >>> seen = model.inspect("the quick brown")
        >>> seen.tokens
        [...]
        >>> len(seen.predictions) > 0
        True
        """
        subject = self._with_history(self._subject(text, **options))
        seen = Inspection(subject, layers, heads)
        if compare or word is not None:
            seen.contexts = self._contexts(seen, compare, word)
        return seen

    def _contexts(
        self, seen: Inspection, compare: str | Sequence[str], word: str | None
    ) -> Contexts:
        texts = [compare] if isinstance(compare, str) else compare
        others = [Inspection(self._subject(each)) for each in texts]
        return contexts_of([seen, *others], self.preprocessing.tokenizers["tokenizer"], word)

    def heads(self, text: str, layer: int | None = None, head: int | None = None) -> HeadsView:
        """What each head attends to; one layer or one head of each layer, if that is given.

        >>> model.heads("the quick brown", layer=0).as_json()["attention"]
        [...]
        """
        layers, heads = (None if number is None else [number] for number in (layer, head))
        return HeadsView(self.inspect(text, layers, heads))

    def ablation(self, text: str) -> AblationView:
        """How the last prediction, or that of the first mask, changes without each head. Without
        an output layer: how far the vector of the text turns.

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

    def attribution(self, text: str) -> AttributionView:
        """Which tokens the last prediction, or that of the first mask, rests on: mean attention,
        rollout, attention × gradient, integrated gradients, and the effect of leaving each out.

        >>> found = model.attribution("the quick brown").found
        >>> found.integrated_gradients.sum(), found.logprob - found.baseline_logprob
        (...)
        >>> abs(found.error) < 0.1
        True
        """
        seen = self.inspect(text)
        return AttributionView(seen, *attributions(seen))

    def contexts(
        self, text: str, compare: str | Sequence[str] = (), word: str | None = None
    ) -> ContextsView:
        """The vectors of a word in a text and in the sentences to compare it with, layer by layer
        (default: the longest word that all of them share).

        >>> found = model.contexts("the quick brown", compare=["over the lazy dog"], word="the")
        >>> len(found.contexts.uses)
        2
        >>> found.contexts.cosine[-1]
        array(...)
        """
        seen = self.inspect(text)
        seen.contexts = self._contexts(seen, compare, word)
        return ContextsView(seen)

    def lens(self, text: str) -> LensView:
        """What the model would predict if it stopped after each layer.

        >>> print(model.lens("the quick brown").text())
        """
        return LensView(self.inspect(text))


class InspectsTranslations(InspectsText):
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
