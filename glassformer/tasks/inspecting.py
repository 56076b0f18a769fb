"""Looking inside models: the views that predictors of texts, translations and images share.

    input → Predictor._subject → Subject → Inspection → one view, drawn by `inspect/views.py`

`InspectsText` has a method for each view of a text, `InspectsImages` the page of an image.
`LooksBack` shows an input through the training of its model; `contexts_of` compares the vectors of
one word in several sentences.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from glassformer.checkpoint.model_folder import load_snapshot, snapshots_of
from glassformer.checkpoint.model_names import is_run
from glassformer.checkpoint.training_state import METRICS, curves_of, read_metrics, read_samples
from glassformer.errors import UsageError
from glassformer.inspect import text_views
from glassformer.inspect.attribution import attributions
from glassformer.inspect.capture import stacks_of
from glassformer.inspect.inspection import Inspection, Stream, Subject
from glassformer.inspect.over_time import OverTime, Record
from glassformer.inspect.words import Contexts, Use, vectors_of
from glassformer.machine.threads import check_wanted
from glassformer.models.ensemble import has_bag
from glassformer.nn.attention import merge_projections
from glassformer.nn.layers import Embedding
from glassformer.preprocessing.images import ImageInput
from glassformer.tasks.alignment import word_starts
from glassformer.tasks.task import Predictor, View
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import an, shortened

# --- looking back: what a model made of an input at earlier steps of its training ---
#
# The run of a model keeps snapshots of its weights (`checkpoint/model_folder.py`), because only two
# of its checkpoints are kept and these are several times as large. Each snapshot is loaded in turn,
# and looked at like the model itself.

_NO_RUN = "no training is recorded here: the model is not in a run folder"
_NO_SNAPSHOTS = (
    "the run has no snapshots of its weights. Train with --set training.snapshots=12 to keep some"
)


class LooksBack(Predictor):
    """A predictor that can look at an input through the training of its model."""

    @abstractmethod
    def _subject(self, text: str) -> Subject:
        """The model with an input, as the views look at it. Keyword arguments are options."""

    def inspect_over_time(
        self, text: str, layer: int | None = None, head: int | None = None, **options: Any
    ) -> OverTime:
        """What the model predicted and attended to at earlier steps of its training: `moments` has
        one entry for each snapshot of the run. `layer` and `head` limit the attention that is kept.

        >>> history = model.inspect_over_time("the quick brown")
        >>> history.steps
        [0, 1, ...]
        >>> [moment.predictions[-1].options[0] for moment in history.moments]
        [...]
        """
        layers, heads = (None if index is None else [index] for index in (layer, head))
        subject = self._subject(text, **options)
        why = self._no_history(subject)
        history = None if why else self._look_back(subject, layers, heads)
        if history is None or not history.moments:
            raise UsageError(f"{self.folder or subject.model}: {why or _NO_SNAPSHOTS}.")
        return history

    def _with_history(self, subject: Subject) -> Subject:
        """The subject of a single inspection, whose page looks back, too."""
        if self.folder is None:
            return subject
        if why := self._no_history(subject):
            return replace(subject, no_history=why)
        return replace(subject, history=partial(self._look_back, subject))

    def _no_history(self, subject: Subject) -> str:
        """Why it is not possible to look back, if it is not; no weights are read."""
        folder = self.folder
        if folder is None or not is_run(folder):
            return _NO_RUN
        if subject.again is None:
            return f"{an(subject.model)} cannot be looked at over time"
        if not snapshots_of(folder) and not read_metrics(folder / METRICS):
            return _NO_SNAPSHOTS
        return ""

    def _look_back(
        self,
        subject: Subject,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> OverTime:
        """The history of a subject; without moments if the run has curves but no snapshots."""
        folder, again = self.folder, subject.again
        if folder is None or again is None:
            raise TypeError("only a model in a run folder has a history")
        record = Record(curves_of(read_metrics(folder / METRICS)), read_samples(folder))
        files = snapshots_of(folder)
        device = next(self.model.parameters()).device

        def inspections() -> Iterator[tuple[int, Inspection]]:
            for step, file in reversed(files):
                check_wanted()  # by a reader of the live page, who may have gone on
                model = load_snapshot(folder, file).to(device)
                merge_projections(model)
                yield step, Inspection(again(model), layers, heads)

        return OverTime(subject, inspections(), record)


# --- texts ---


def has_layers(model: Any) -> bool:
    return bool(stacks_of(model))


def predicts(model: Any) -> bool:
    """Whether it has an output layer; without one, it turns texts into vectors."""
    return getattr(getattr(model, "config", None), "has_head", True)


def reads_only_vectors(model: Any) -> bool:
    """Whether all it knows of a text comes from the vectors of its tokens: a bag reads words."""
    has_vectors = any(isinstance(part, Embedding) for part in model.modules())
    return predicts(model) and has_vectors and not has_bag(model)


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
        others = [Inspection(self._subject(text)) for text in texts]
        return contexts_of([seen, *others], self.preprocessing.tokenizers["tokenizer"], word)

    def heads(
        self, text: str, layer: int | None = None, head: int | None = None
    ) -> text_views.HeadsView:
        """What each head attends to; one layer or one head of each layer, if that is given.

        >>> model.heads("the quick brown", layer=0).as_json()["attention"]
        [...]
        """
        layers, heads = (None if index is None else [index] for index in (layer, head))
        return text_views.HeadsView(self.inspect(text, layers, heads))

    def ablation(self, text: str) -> text_views.AblationView:
        """How the last prediction, or that of the first mask, changes without each head. Without
        an output layer: how far the vector of the text turns.

        >>> model.ablation("the quick brown").effects.divergence
        array(...)
        """
        seen = self.inspect(text)
        return text_views.AblationView(seen, seen.effects())

    def prediction(self, text: str) -> text_views.PredictionView:
        """What the model predicts at each position, and how likely what is there was.

        >>> print(model.prediction("the quick brown").text())
        """
        return text_views.PredictionView(self.inspect(text))

    def attribution(self, text: str) -> text_views.AttributionView:
        """Which tokens the last prediction, or that of the first mask, rests on: mean attention,
        rollout, attention × gradient, integrated gradients, and the effect of leaving each out.

        >>> effects = model.attribution("the quick brown").attribution
        >>> effects.integrated_gradients.sum(), effects.logprob - effects.baseline_logprob
        (...)
        >>> abs(effects.error) < 0.1
        True
        """
        seen = self.inspect(text)
        return text_views.AttributionView(seen, *attributions(seen))

    def contexts(
        self, text: str, compare: str | Sequence[str] = (), word: str | None = None
    ) -> text_views.ContextsView:
        """The vectors of a word in a text and in the sentences to compare it with, layer by layer
        (default: the longest word that all of them share).

        >>> view = model.contexts("the quick brown", compare=["over the lazy dog"], word="the")
        >>> len(view.contexts.uses)
        2
        >>> view.contexts.cosine[-1]
        array(...)
        """
        seen = self.inspect(text)
        seen.contexts = self._contexts(seen, compare, word)
        return text_views.ContextsView(seen)

    def lens(self, text: str) -> text_views.LensView:
        """What the model would predict if it stopped after each layer.

        >>> print(model.lens("the quick brown").text())
        """
        return text_views.LensView(self.inspect(text))


class InspectsTranslations(InspectsText):
    """The views of a model that writes a translation."""

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


# --- images ---

IMAGE_VIEWS: dict[str, View] = {
    "story": View("inspect", "all of it on one page", reads_file=True),
}


class InspectsImages(Predictor):
    """A predictor whose model reads images and can be looked into."""

    views: ClassVar[Mapping[str, View]] = IMAGE_VIEWS
    usual_view: ClassVar[str | None] = "story"

    @abstractmethod
    def _subject(self, image: ImageInput) -> Subject:
        """The model with an image, as the page looks at it."""

    def inspect(
        self,
        image: ImageInput,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> Inspection:
        """What the model computes on an image, a file or pixels: patches, attention, states of
        every layer, predictions. `layers` and `heads` limit the attention that is kept.

        >>> seen = model.inspect("photo.png")
        >>> seen.predictions[0].options[0].probability > 0
        True
        """
        return Inspection(self._subject(image), layers, heads)


# --- the word that several sentences share, and its vectors in each of them ---

Words = dict[str, list[tuple[int, ...]]]
"""The words of a sentence, in lower case, each with the positions of its tokens wherever it
stands."""


def contexts_of(seen: Sequence[Inspection], tokenizer: Tokenizer, word: str | None) -> Contexts:
    """A word in several sentences (default: the longest that all of them share), as the first
    stack of the model reads it."""
    streams = [inspection.subject.streams[0] for inspection in seen]
    words = [words_of(tokenizer, stream.ids) for stream in streams]
    texts = [inspection.subject.text for inspection in seen]
    notes = tuple(dict.fromkeys(note for inspection in seen for note in inspection.notes))
    if word is None:
        word, more = _shared(words)
        notes += more
    else:
        _check(word, words, texts)
    uses = [
        Use(sentence, positions)
        for sentence, words_of_it in enumerate(words)
        for positions in words_of_it[word.casefold()]
    ]
    if len(uses) < 2:
        raise UsageError(
            f'"{word}" stands in one place only. Pass another sentence with --compare.'
        )
    parts = [
        vectors_of(inspection.capture(stream).hidden, [u for u in uses if u.sentence == sentence])
        for sentence, (inspection, stream) in enumerate(zip(seen, streams, strict=True))
    ]
    return Contexts(
        model=seen[0].subject.model,
        word=word,
        sentences=texts,
        tokens=[_without_special(tokenizer, stream) for stream in streams],
        uses=uses,
        separator="" if tokenizer.keeps_spacing else " ",
        hidden=np.concatenate(parts, axis=1),  # (N + 1, U, D)
        notes=notes,
    )


def _without_special(tokenizer: Tokenizer, stream: Stream) -> list[str]:
    """The tokens of a stream, with nothing in place of those that are no text."""
    special = set(tokenizer.special_tokens.values())
    pairs = zip(stream.tokens, stream.ids, strict=True)
    return ["" if id in special else token for token, id in pairs]


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
    """The words of a sentence, without special tokens, unknown words and punctuation."""
    special = {*tokenizer.special_tokens.values(), tokenizer.unknown}
    groups: list[list[int]] = []
    for position, begins in enumerate(word_starts(tokenizer, ids)):
        if begins or not groups:
            groups.append([])
        groups[-1].append(position)
    words: Words = {}
    for group in groups:
        tokens = {at: tokenizer.token(ids[at]).removeprefix("##") for at in group}
        positions = [at for at in group if ids[at] not in special and tokens[at].strip()]
        name = "".join(tokens[at] for at in positions).strip().casefold()
        if any(map(str.isalnum, name)):
            words.setdefault(name, []).append(tuple(positions))
    return words


def _shared(words: Sequence[Words]) -> tuple[str, tuple[str, ...]]:
    """The longest of the words that all sentences have, and a note if there are others."""
    shared = [name for name in words[0] if all(name in others for others in words[1:])]
    if len(words) == 1:
        raise UsageError("a word is compared in several sentences. Pass another with --compare.")
    if not shared:
        raise UsageError(
            f"no word stands in each of the {len(words)} sentences: the first one has "
            f"{', '.join(words[0]) or 'no words'}. Use sentences that share a word."
        )
    word = max(shared, key=len)
    if len(shared) == 1:
        return word, ()
    others = ", ".join(f'"{other}"' for other in shared if other != word)
    return word, (f'"{word}" is compared; the sentences also share {others} (choose with --word)',)


def _check(word: str, words: Sequence[Words], texts: Sequence[str]) -> None:
    """Raise unless all sentences have the word."""
    for text, words_of_it in zip(texts, words, strict=True):
        if word.casefold() not in words_of_it:
            raise UsageError(
                f'"{word}" is not a word of "{shortened(text, 60)}" as the model reads it: '
                f"{', '.join(words_of_it) or 'no words'}."
            )
