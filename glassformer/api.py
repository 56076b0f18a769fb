"""The verbs of the command line as Python functions.

    run = glassformer.train("gpt", data="notes.txt", max_steps=500)
    run.predictor.generate("Once upon").text

A function has the options of its verb, by the same names with underscores, and goes through the
same code, so the two cannot differ. Progress and notes are written to stderr, unless `quiet`.
"""

import io
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, Unpack

from glassformer.errors import UsageError
from glassformer.options import (
    FinetuneOptions,
    Names,
    OnePath,
    Paths,
    TrainOptions,
    accepted,
    check_names,
    several_paths,
    shows,
)
from glassformer.tables import Table

if TYPE_CHECKING:
    from glassformer.comparison import Comparison
    from glassformer.config import Values
    from glassformer.formats.export import ExportedModel
    from glassformer.formats.open_model import ImportedModel
    from glassformer.tasks.evaluating import Result
    from glassformer.training.report import Outcome


class Run:
    """A finished training. It is a path: pass it wherever a run folder is expected."""

    def __init__(self, outcome: "Outcome") -> None:
        self.folder = outcome.folder
        self.best: dict[str, float] | None = None
        """The step and the validation scores of the model that was kept."""
        if outcome.best is not None:
            self.best = {"step": outcome.best_step or 0, **outcome.best}
        self.report = outcome.report
        """The page about the run, if it could be written."""
        self._summary, self._json = outcome.summary(), outcome.as_json()

    @cached_property
    def predictor(self) -> Any:
        """The best model, loaded when it is first used: an object with the verbs of its task."""
        from glassformer.tasks import load

        return load(self.folder)

    @property
    def metrics(self) -> Table:
        """The learning curves: a row for each line of metrics.csv; None where there is no value."""
        from glassformer.checkpoint.training_state import METRICS, read_metrics

        rows = read_metrics(self.folder / METRICS)
        return Table({name: _number(name, text) for name, text in row.items()} for row in rows)

    def summary(self) -> str:
        """The line that the command line prints at the end."""
        return self._summary

    def as_json(self) -> dict[str, Any]:
        """What `train --json` prints."""
        summary: dict[str, Any] = json.loads(self._json)
        return summary

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        best = Table([] if self.best is None else [{**self.best, "step": int(self.best["step"])}])
        return f"{best._repr_html_()}<p>{escape(self.summary())}</p>"


def _number(name: str, text: str) -> int | float | None:
    if not text:
        return None
    return int(text) if name == "step" else float(text)


@shows(TrainOptions)
def train(
    model: str | None = None,
    data: Paths | None = None,
    *,
    out: OnePath | None = None,
    recipe: OnePath | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    quiet: bool = False,
    **options: Unpack[TrainOptions],
) -> Run:
    """Train a model on your own data, train a given model further (`from_`), or continue a run:
    `glassformer train`.

    `settings` sets any key of the recipe, as `--set` does: `{"training.learning_rate": 1e-3}`.
    Ctrl-C saves the run and raises KeyboardInterrupt; `resume=True` continues it.
    """
    check_names(options, train)
    run = {"recipe": _path(recipe), "out": _path(out), "resume": resume, "force": force}
    return _trained({"model": {"name": model}}, {"data": data, **options}, settings, run, quiet)


@shows(FinetuneOptions)
def finetune(
    model: OnePath,
    task: str,
    data: Paths | None = None,
    *,
    out: OnePath | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    quiet: bool = False,
    **options: Unpack[FinetuneOptions],
) -> Run:
    """Train a pre-trained model for a new task: `glassformer finetune`."""
    from glassformer.training.finetuning import on_top_of

    check_names(options, finetune)
    run = {"out": _path(out), "resume": resume, "force": force}
    return _trained(on_top_of(Path(model), task), {"data": data, **options}, settings, run, quiet)


def evaluate(
    model: OnePath,
    data: Paths | None = None,
    *,
    source: Paths | None = None,
    target: Paths | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    text_column: Names | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    encoding: str | None = None,
    context_length: int | None = None,
    bleu_tokenizer: str | None = None,
    max_new_tokens: int | None = None,
    errors: int | None = None,
    quantize: str | None = None,
    quiet: bool = False,
) -> "Result":
    """Evaluate a model on held-out data: `glassformer evaluate`. With `quantize`, the result also
    has the scores of the original, and compares the two."""
    values: dict[str, Any] = {
        "paths": several_paths(data),
        "source_paths": several_paths(source),
        "target_paths": several_paths(target),
        "source_column": source_column,
        "target_column": target_column,
        "text_column": several_paths(text_column),
        "image_column": image_column,
        "label_column": label_column,
        "encoding": encoding,
        "context_length": context_length,
        "bleu_tokenizer": bleu_tokenizer,
        "max_new_tokens": max_new_tokens,
        "errors": errors,
    }
    from glassformer.tasks import check_quantization, load
    from glassformer.tasks.evaluating import QuantizedResult

    check_quantization(quantize)
    if not (data or source or target):
        raise UsageError(
            "no data. Pass --data FILE, or for a translator --source FILE and --target FILE."
        )
    predictor = load(model)
    arguments = accepted(values, predictor.evaluate, os.fspath(model))
    result: Result = predictor.evaluate(**arguments)
    if quantize is not None and predictor.is_quantized:
        _note([f"the weights of {os.fspath(model)} are {quantize} already"], quiet)
    elif quantize is not None:
        quantized = load(model, quantize).evaluate(**arguments)
        result = QuantizedResult(quantize, result, quantized)
    _note(result.notes, quiet)
    return result


def compare(
    models: Sequence[OnePath],
    data: Paths,
    *,
    text_column: Names | None = None,
    label_column: str | None = None,
    encoding: str | None = None,
    baseline: bool = True,
    quiet: bool = False,
) -> "Comparison":
    """Compare models on the same data, the best first: `glassformer compare`."""
    from glassformer.comparison import compare as measure
    from glassformer.tasks import predictor_of

    folders = list(map(Path, several_paths(models)))
    if not folders:
        raise UsageError("no models to compare. Pass at least one run folder.")
    values = {
        "paths": several_paths(data),
        "text_column": several_paths(text_column),
        "label_column": label_column,
        "encoding": encoding,
    }
    arguments = accepted(values, predictor_of(folders[0]).evaluate, folders[0])
    stream = _stream(quiet)
    comparison = measure(folders, arguments, baseline, lambda text: print(text, file=stream))
    _note(comparison.notes, quiet)
    return comparison


@dataclass(frozen=True)
class Report:
    """A page about runs, and its numbers."""

    runs: list[dict[str, Any]]
    names: list[str]
    path: Path | None
    """The file that was written."""

    def as_json(self) -> dict[str, Any]:
        """What `report --json` prints."""
        from glassformer.training.report import as_json

        return as_json(self.runs, self.names)

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        """The page, in a frame."""
        from glassformer.inspect.page import Frame
        from glassformer.training.report import page

        names = self.names if len(self.names) > 1 else [""]
        return Frame(page(self.runs, names))._repr_html_()


def report(runs: OnePath | Sequence[OnePath], out: OnePath | None = None) -> Report:
    """Write a page about a run, or about several side by side: `glassformer report`.

    The name of `out` ends in .html or .json; for a single run, report.html in its folder is the
    default.
    """
    from glassformer.training.run_folder import REPORT

    folders = list(map(Path, several_paths(runs)))
    if out is None:
        if len(folders) != 1:
            raise UsageError("several runs need a place for their report: pass --out FILE.")
        out = folders[0] / REPORT
    return read_report(folders, Path(out))


def read_report(folders: Sequence[Path], out: Path | None) -> Report:
    """The report of runs, written to `out` unless it is None."""
    from glassformer.files import check_ending
    from glassformer.training.report import ENDINGS, draw, report_of
    from glassformer.training.run_folder import RunFolder

    if out is not None:
        check_ending(out, ENDINGS)
    runs, names = [report_of(RunFolder(run)) for run in folders], list(map(str, folders))
    if out is not None:
        draw(runs, names if len(folders) > 1 else [""], out)
    return Report(runs, names, out)


def import_model(
    path: OnePath, out: OnePath | None = None, *, base: OnePath | None = None, force: bool = False
) -> "ImportedModel":
    """Import a published model into a model folder, or merge an adapter into its `base` model:
    `glassformer import`."""
    from glassformer.formats.open_model import import_model

    name = None if base is None else os.fspath(base)
    return import_model(os.fspath(path), _path(out), force, name)


def export_model(
    model: OnePath,
    format: str = "hf",
    out: OnePath | None = None,
    *,
    dtype: str | None = None,
    quantize: str | None = None,
    data: Paths | None = None,
    force: bool = False,
) -> "ExportedModel":
    """Write a model in the format of another tool, and compare: `glassformer export`.

    `quantize="int8"` writes 8-bit weights. What that costs is measured on `data`, or else on the
    validation data of the run, and noted in the model card.
    """
    from glassformer.formats.export import export_model
    from glassformer.tasks import check_quantization

    check_quantization(quantize)
    if data is not None and quantize is None:
        raise UsageError("--data is for measuring what --quantize costs. Pass both or neither.")
    if quantize is None:
        return export_model(os.fspath(model), format, _path(out), force, dtype)
    from glassformer.training.report import cost_of_quantizing

    return export_model(
        os.fspath(model),
        format,
        _path(out),
        force,
        dtype,
        quantized=True,
        cost=lambda: cost_of_quantizing(model, quantize, several_paths(data)),
    )


def _path(path: OnePath | None) -> Path | None:
    return None if path is None else Path(path)


def _trained(
    sections: "Values",
    options: Mapping[str, Any],
    settings: Mapping[str, Any] | None,
    run: Mapping[str, Any],
    quiet: bool,
) -> Run:
    from glassformer.config import flatten
    from glassformer.training import command

    # As YAML, of which JSON is a part: `--set` reads it.
    assignments = [
        f"{key}={json.dumps(value, ensure_ascii=False, default=str)}"
        for key, value in flatten(settings or {})
    ]
    outcome = command.train(command.request(sections, options, assignments, **run), _stream(quiet))
    if outcome.stopped_by == signal.SIGINT:  # a loop over trainings should end, too
        raise KeyboardInterrupt(outcome.summary())
    if outcome.stopped_by is not None:
        raise SystemExit(outcome.exit_code)
    return Run(outcome)


def _stream(quiet: bool) -> TextIO:
    return io.StringIO() if quiet else sys.stderr


def _note(notes: Sequence[str], quiet: bool) -> None:
    for note in notes:
        print(f"note: {note}", file=_stream(quiet))
