"""Looking back: what a model made of an input at earlier steps of its training.

The run of a model keeps snapshots of its weights (`checkpoint/snapshots.py`). Each is loaded in
turn, and looked at like the model itself.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from glassformer.checkpoint.run_record import (
    METRICS,
    curves_of,
    is_run,
    read_metrics,
    read_samples,
)
from glassformer.checkpoint.snapshots import load_snapshot, snapshots_of
from glassformer.errors import UsageError
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.over_time import OverTime, Record
from glassformer.inspection.subject import Subject
from glassformer.nn.attention import merge_projections
from glassformer.predict.predictor import Predictor
from glassformer.runtime.threads import check_wanted
from glassformer.wording import an

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
        layers, heads = (None if number is None else [number] for number in (layer, head))
        subject = self._subject(text, **options)
        why = self._no_history(subject)
        history = None if why else self._looked_back(subject, layers, heads)
        if history is None or not history.moments:
            raise UsageError(f"{self.folder or subject.model}: {why or _NO_SNAPSHOTS}.")
        return history

    def _with_history(self, subject: Subject) -> Subject:
        """The subject of a single inspection, whose page looks back, too."""
        if self.folder is None:
            return subject
        if why := self._no_history(subject):
            return replace(subject, no_history=why)
        return replace(subject, history=partial(self._looked_back, subject))

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

    def _looked_back(
        self,
        subject: Subject,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> OverTime:
        """Without moments, if the run has curves but no snapshots."""
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
