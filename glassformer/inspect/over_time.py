"""The same input through the training of a model: what it predicted and attended to at each step
of which there is a snapshot, beside the curves and samples of the run.

    snapshot of step 0, 1, 2, 5 …  →  Inspection  →  Moment

Snapshots are weights only, since a run keeps just two of its checkpoints, which are several times
as large. `Subject.again` makes the same input for the model of a snapshot, so that the views know
nothing about time.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from glassformer.errors import UsageError
from glassformer.inspect import Array
from glassformer.inspect.heads import Pattern, head_patterns
from glassformer.inspect.inspection import Inspection, Prediction, Subject
from glassformer.tables import aligned, html_notes, html_table
from glassformer.wording import counted, percent, shortened

FOLLOWED = 5  # tokens or labels that are likeliest at the end, at each position
MOST_BYTES = 1_000_000_000  # of all attention weights


@dataclass(frozen=True)
class Record:
    """What a run wrote down while it learned."""

    metrics: dict[str, list[float | None]] = field(default_factory=dict)
    """The columns of metrics.csv."""
    samples: list[tuple[int, str]] = field(default_factory=list)
    """(step, text)"""


@dataclass(frozen=True, eq=False)
class Moment:
    """What the model of one step computes on the input."""

    step: int
    predictions: list[Prediction]
    followed: list[list[float]]
    """The probabilities of the tokens that are followed, at each position."""
    attention: Array | None
    """(L, H, T, T), if the model has layers of self-attention."""
    cross_attention: Array | None
    """(L, H, T, S), if it has a source."""
    patterns: list[Pattern]
    written: str | None
    """The text that the model writes, if it is asked to."""

    @property
    def loss(self) -> float | None:
        """Mean negative log-probability of the tokens that are there."""
        logprobs = [each.logprob for each in self.predictions if each.logprob is not None]
        return -math.fsum(logprobs) / len(logprobs) if logprobs else None

    def as_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "step": self.step,
            "predictions": [asdict(prediction) for prediction in self.predictions],
            "followed": self.followed,
            "loss": self.loss,
        }
        if self.written is not None:
            data["written"] = self.written
        if self.attention is not None:
            data["attention"] = self.attention.tolist()
            data["patterns"] = {rule.name: rule.shares.tolist() for rule in self.patterns}
        if self.cross_attention is not None:
            data["cross_attention"] = self.cross_attention.tolist()
        return data


class OverTime:
    """An input through the training of a model."""

    def __init__(
        self, subject: Subject, inspections: Iterable[tuple[int, Inspection]], record: Record
    ) -> None:
        """`inspections` are those of the snapshots, with their steps, the last one first; they are
        made one at a time, and only what is shown is kept."""
        self.subject = subject
        self.record = record
        self.layers: list[int] = []
        self.heads: list[int] = []
        self.is_causal = False
        self._ids: list[list[int]] = []
        moments: list[Moment] = []
        for step, seen in inspections:
            if not moments:
                self._begin(seen)
            moments.append(self._moment(step, seen))
            self._check_size(moments)
        self.moments = moments[::-1]

    def _begin(self, last: Inspection) -> None:
        """What is the same for all snapshots follows from the last one."""
        best = last.logprobs.argsort(dim=-1, descending=True, stable=True)[:, :FOLLOWED].tolist()
        for ids, actual in zip(best, self.subject.actual, strict=True):
            self._ids.append(
                [*ids, *([actual] if actual is not None and actual not in ids else [])]
            )
        if last.has_layers:
            capture = last.capture()
            self.layers, self.heads = capture.layers, capture.heads
            self.is_causal = last.stream.is_causal

    def _moment(self, step: int, seen: Inspection) -> Moment:
        p = seen.logprobs.exp()
        attention = seen.attention if seen.has_layers else None
        ids = seen.stream.ids
        return Moment(
            step=step,
            predictions=seen.predictions,
            followed=[p[row, ids].tolist() for row, ids in enumerate(self._ids)],
            attention=attention,
            cross_attention=seen.cross_attention,
            patterns=[] if attention is None else head_patterns(attention, ids, self.is_causal),
            written=None if seen.subject.write is None else seen.subject.write(),
        )

    def _check_size(self, moments: Sequence[Moment]) -> None:
        size = sum(
            weights.nbytes
            for moment in moments
            for weights in (moment.attention, moment.cross_attention)
            if weights is not None
        )
        if size > MOST_BYTES:
            raise UsageError(
                "the attention of all snapshots takes more than 1 GB. Use a shorter text, or "
                "choose one layer with --layer 0."
            )

    # --- what is shown ---

    @property
    def steps(self) -> list[int]:
        return [moment.step for moment in self.moments]

    @property
    def tokens(self) -> list[str]:
        return self.subject.streams[-1].tokens

    @property
    def focus(self) -> int:
        """The prediction that is looked at first."""
        return self.subject.focus % len(self.subject.actual)

    @property
    def followed(self) -> list[list[str]]:
        """The tokens or labels that are followed, at each position: those that are likeliest in the
        end, and the one that is there."""
        return [[self.subject.name_of(id) for id in ids] for ids in self._ids]

    @property
    def notes(self) -> tuple[str, ...]:
        return self.subject.notes

    # --- for programs and people ---

    def as_json(self) -> dict[str, Any]:
        """Every number behind the pictures, unrounded."""
        subject = self.subject
        data = subject.as_json() | {"steps": self.steps, "followed": self.followed}
        if self.layers:
            data |= {"layers": self.layers, "heads": self.heads}
        for stream in subject.streams[:-1]:
            data[f"{stream.name}_tokens"] = stream.tokens
        data["moments"] = [moment.as_json() for moment in self.moments]
        data["metrics"] = self.record.metrics
        data["samples"] = [{"step": step, "text": text} for step, text in self.record.samples]
        return data

    def text(self) -> str:
        """A table of the predictions at each step."""
        return aligned(*self._table())

    def __repr__(self) -> str:
        parts = [repr(shortened(self.subject.text, 60)), counted(len(self.moments), "moment")]
        if self.moments:
            parts.append(f"steps {self.steps[0]:,} to {self.steps[-1]:,}")
        notes = (f"\nnote: {note}" for note in self.notes)
        return f"OverTime({self.subject.model}: {', '.join(parts)}){''.join(notes)}"

    def _repr_html_(self) -> str:
        """The table as HTML, for notebooks."""
        return f"{html_notes(self.notes)}{html_table(*self._table())}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        where = {"next": "after", "same": "at"}.get(self.subject.predicts)
        names = ["step", f"{where} {self.tokens[self.focus]!r}" if where else "the whole text"]
        rows = []
        for moment in self.moments:
            best = moment.predictions[self.focus].options[:3]
            options = (f"{option.token!r} {percent(option.probability)}" for option in best)
            rows.append([f"{moment.step:,}", ", ".join(options)])
        if self.moments[0].loss is not None:
            names.append("mean loss of the text")
            for row, moment in zip(rows, self.moments, strict=True):
                row.append(f"{moment.loss:.3f}")
        if self.moments[0].written is not None:
            names.append("writes")
            for row, moment in zip(rows, self.moments, strict=True):
                row.append(repr(moment.written))
        return names, rows
