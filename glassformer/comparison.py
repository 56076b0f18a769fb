"""Models compared on the same data, with confidence intervals."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from glassformer.data.labels import listed, one_name
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import write_json
from glassformer.models import count_parameters, name_of, row
from glassformer.progress import Notify, silently
from glassformer.tables import Table, aligned, html_table
from glassformer.tasks import load, task_of
from glassformer.tasks.evaluating import Result, order
from glassformer.tasks.task import Predictor
from glassformer.training.run_folder import BASELINE, RunFolder
from glassformer.wording import score_name


@dataclass(frozen=True)
class Line:
    """A model and its result."""

    name: str
    num_parameters: int | None
    result: Result

    def as_json(self, measure: str) -> dict[str, Any]:
        interval = self.result.interval_of(measure)
        return {
            "model": self.name,
            "num_parameters": self.num_parameters,
            **self.result.scores(),
            "interval": None if interval is None else list(interval),
        }


@dataclass(frozen=True)
class Comparison:
    """One line per model, the best first."""

    lines: list[Line]
    notes: list[str]
    measure: str
    """The score that decides which is the best."""

    @property
    def metrics(self) -> Table:
        """The scores as a table with a row for each model."""
        names = [*dict.fromkeys(name for line in self.lines for name in line.result.scores())]
        table = Table()
        for line in self.lines:
            table.append({"model": line.name, "parameters": line.num_parameters})
            table[-1].update({name: line.result.scores().get(name) for name in names})
        return table

    def text(self) -> str:
        return aligned(*self._table())

    def __str__(self) -> str:
        return self.text()

    def as_json(self) -> list[dict[str, Any]]:
        return [line.as_json(self.measure) for line in self.lines]

    def _repr_html_(self) -> str:
        return html_table(*self._table())

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """The head and the rows."""
        names = [self.measure, *(n for n in self.lines[0].result.scores() if n != self.measure)]
        words = [score_name(name) for name in names]
        head = ["model", "parameters", words[0], "95% interval", *words[1:]]
        return head, [self._cells(line, names) for line in self.lines]

    @staticmethod
    def _cells(line: Line, names: list[str]) -> list[str]:
        scores, reach = line.result.scores(), line.result.interval_of(names[0])
        first, *rest = (f"{scores[name]:.4f}" if name in scores else "-" for name in names)
        size = "-" if line.num_parameters is None else f"{line.num_parameters:,}"
        interval = "-" if reach is None else "{:.4f} to {:.4f}".format(*reach)
        return [line.name, size, first, interval, *rest]


def compare(
    folders: Sequence[Path],
    arguments: dict[str, Any],
    with_baseline: bool = True,
    notify: Notify = silently,
) -> Comparison:
    """Evaluate every model on the same files; `arguments` are those of `Predictor.evaluate`. Models
    with equal scores are ordered by their loss. `notify` reports what takes long."""
    predictors = [load(folder) for folder in folders]
    tasks = {row(name_of(predictor.model)).task for predictor in predictors}
    if len(tasks) > 1:
        raise UsageError(
            f"these models have different tasks ({', '.join(sorted(tasks))}), so their scores "
            "cannot be compared. Choose models for the same task."
        )
    _check_labels(folders, predictors)
    lines = [
        Line(str(folder), count_parameters(predictor.model), predictor.evaluate(**arguments))
        for folder, predictor in zip(folders, predictors, strict=True)
    ]
    notes = _notes(lines)
    if with_baseline:
        try:
            lines += _baseline(folders[0], predictors[0], arguments, notify)
        except GlassformerError as error:
            notes.append(f"no baseline: {error}")
    measure = _measure([line.result.scores() for line in lines])
    lines.sort(key=lambda line: order(measure, line.result.scores()[measure], line.result.loss))
    return Comparison(lines, notes, measure)


def _measure(scores: Sequence[dict[str, float]]) -> str:
    """The first score of all. A model without some of the labels sees other classes: then accuracy,
    in which these count as wrong."""
    common = [name for name in scores[0] if all(name in others for others in scores)]
    is_agreed = all(next(iter(others)) == common[0] for others in scores)
    return common[0] if is_agreed or "accuracy" not in common else "accuracy"


def _notes(lines: Sequence[Line]) -> list[str]:
    """Shown once if they are the same for all models, otherwise with the name of the model."""
    if len({line.result.notes for line in lines}) == 1:
        return list(lines[0].result.notes)
    return [f"{line.name}: {note}" for line in lines for note in line.result.notes]


def _check_labels(folders: Sequence[Path], predictors: Sequence[Predictor]) -> None:
    """Raise if two models have no label in common."""
    first, *others = (
        {*map(one_name, getattr(predictor.model, "labels", ()))} for predictor in predictors
    )
    for folder, labels in zip(folders[1:], others, strict=True):
        if first and not first & labels:
            raise UsageError(
                f"{folders[0]} and {folder} have no label in common "
                f"({listed(sorted(first), 3)}; {listed(sorted(labels), 3)}). Choose models "
                "with the same labels."
            )


def _baseline(
    folder: Path, predictor: Predictor, arguments: dict[str, Any], notify: Notify
) -> list[Line]:
    """The baseline of the task, if it has one, trained on the training data of a run. Its scores
    are kept with the run: the same data is not trained on again."""
    baseline = task_of(name_of(predictor.model)).baseline
    if baseline is None:
        return []
    run = RunFolder(folder)
    if not run.exists:
        raise GlassformerError(f"{folder} contains no recipe, so its training data is unknown.")
    ready = baseline(run.recipe(), predictor, arguments)
    scores = read_scores(folder / BASELINE, ready.digest)
    if scores is None:
        notify(f"training the baseline ({ready.name}) …")
        scores = Scores.of(ready.result())
        write_scores(folder / BASELINE, ready.digest, scores)
    return [Line(ready.name, None, scores)]


# --- scores of baselines, in a small JSON file of the run ---
#
# They took long to compute, and are found by a digest of all that they depend on. The file is a
# convenience: a damaged one is computed over, and a folder that cannot be written is done without.

MOST = 20  # results in a file; the oldest are forgotten


@dataclass(frozen=True)
class Scores(Result):
    """The scores of a result, without its details."""

    loss: float
    values: dict[str, float]
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, result: Result) -> "Scores":
        return cls(result.loss, result.scores(), result.interval)

    def scores(self) -> dict[str, float]:
        return dict(self.values)

    def parts(self) -> list[str]:
        return [f"{name} {value:.4f}" for name, value in self.values.items()]


_FILE = TypeAdapter(dict[str, Scores])


def read_scores(path: Path, digest: str) -> Scores | None:
    return _read(path).get(digest)


def write_scores(path: Path, digest: str, scores: Scores) -> None:
    newest = list((_read(path) | {digest: scores}).items())[-MOST:]
    with suppress(GlassformerError):
        write_json(path, {key: asdict(value) for key, value in newest})


def _read(path: Path) -> dict[str, Scores]:
    try:
        return _FILE.validate_python(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError, ValidationError):
        return {}
