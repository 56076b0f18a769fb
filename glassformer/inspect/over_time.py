"""The same input through the training of a model: what it predicted and attended to at each step
of which there is a snapshot, beside the curves and samples of the run.

    snapshot of step 0, 1, 2, 5 …  →  Inspection  →  Moment
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

FOLLOWED = 5  # of the tokens or labels that are likeliest at the end, at each position
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
    """What it writes, if it does."""

    @property
    def loss(self) -> float | None:
        """Mean negative log-probability of the tokens that are there."""
        known = [each.logprob for each in self.predictions if each.logprob is not None]
        return -math.fsum(known) / len(known) if known else None


class OverTime:
    """An input through the training of a model."""

    def __init__(
        self,
        subject: Subject,
        inspections: Iterable[tuple[int, Inspection]],
        record: Record,
    ) -> None:
        """`inspections` are those of the snapshots, with their steps, the last one first; they are
        made one at a time, and only what is shown is kept."""
        self.subject = subject
        self.record = record
        self.layers: list[int] = []
        self.heads: list[int] = []
        self.is_causal = False
        self._ids: list[list[int]] = []
        found: list[Moment] = []
        for step, seen in inspections:
            if not found:
                self._begin(seen)
            found.append(self._moment(step, seen))
            self._check_size(found)
        self.moments = found[::-1]

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
            followed=[p[place, ids].tolist() for place, ids in enumerate(self._ids)],
            attention=attention,
            cross_attention=seen.cross_attention,
            patterns=[] if attention is None else head_patterns(attention, ids, self.is_causal),
            written=None if seen.subject.write is None else seen.subject.write(),
        )

    def _check_size(self, moments: Sequence[Moment]) -> None:
        size = sum(
            each.nbytes
            for one in moments
            for each in (one.attention, one.cross_attention)
            if each is not None
        )
        if size > MOST_BYTES:
            raise UsageError(
                "the attention of all snapshots takes more than 1 GB. Use a shorter text, or "
                "choose one layer with --layer 0."
            )

    # --- what is shown ---

    @property
    def steps(self) -> list[int]:
        return [each.step for each in self.moments]

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
        found = subject.as_json() | {"steps": self.steps, "followed": self.followed}
        if self.layers:
            found |= {"layers": self.layers, "heads": self.heads}
        for stream in subject.streams[:-1]:
            found[f"{stream.name}_tokens"] = stream.tokens
        found["moments"] = [_moment_json(each) for each in self.moments]
        found["metrics"] = self.record.metrics
        found["samples"] = [{"step": step, "text": text} for step, text in self.record.samples]
        return found

    def text(self) -> str:
        """For people: what was predicted at each step."""
        return aligned(*self._table())

    def __repr__(self) -> str:
        parts = [repr(shortened(self.subject.text, 60)), counted(len(self.moments), "moment")]
        if self.moments:
            parts.append(f"steps {self.steps[0]:,} to {self.steps[-1]:,}")
        notes = (f"\nnote: {each}" for each in self.notes)
        return f"OverTime({self.subject.model}: {', '.join(parts)}){''.join(notes)}"

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return f"{html_notes(self.notes)}{html_table(*self._table())}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        names = ["step", self._place()]
        rows = []
        for each in self.moments:
            best = each.predictions[self.focus].options[:3]
            rows.append(
                [
                    f"{each.step:,}",
                    ", ".join(f"{one.token!r} {percent(one.probability)}" for one in best),
                ]
            )
        if self.moments[0].loss is not None:
            names.append("mean loss of the text")
            for row, each in zip(rows, self.moments, strict=True):
                row.append(f"{each.loss:.3f}")
        if self.moments[0].written is not None:
            names.append("writes")
            for row, each in zip(rows, self.moments, strict=True):
                row.append(repr(each.written))
        return names, rows

    def _place(self) -> str:
        place = {"next": "after", "same": "at"}.get(self.subject.predicts)
        return f"{place} {self.tokens[self.focus]!r}" if place else "the whole text"


def _moment_json(moment: Moment) -> dict[str, Any]:
    found: dict[str, Any] = {
        "step": moment.step,
        "predictions": [asdict(each) for each in moment.predictions],
        "followed": moment.followed,
        "loss": moment.loss,
    }
    if moment.written is not None:
        found["written"] = moment.written
    if moment.attention is not None:
        found["attention"] = moment.attention.tolist()
        found["patterns"] = {each.name: each.shares.tolist() for each in moment.patterns}
    if moment.cross_attention is not None:
        found["cross_attention"] = moment.cross_attention.tolist()
    return found
