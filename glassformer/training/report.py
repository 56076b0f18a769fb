"""What came of a run: its outcome, its test, its model card, and the page about it.

    add_test        evaluate the best model once, on data that had no part in training it
    model_card      the README.md of the model folder
    report_of       what was trained on what, how it went and what came of it, as plain data
    draw            the report of one run or of several side by side, as a page or as JSON

The report follows from the files of the run alone, without the name of its folder or the time, and
the card has no dates and no paths: equal runs have equal bytes, and a run that was killed and
resumed has the same report as one that was not.
"""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from glassformer import __version__
from glassformer.checkpoint.model_folder import CARD, WEIGHTS, load_model
from glassformer.checkpoint.training_state import (
    METRICS,
    Standing,
    curves_of,
    read_metrics,
    read_samples,
)
from glassformer.config import Config
from glassformer.data.augmentation import AugmentationConfig
from glassformer.errors import GlassformerError
from glassformer.files import (
    check_ending,
    check_folder,
    file_digest,
    write_file,
    write_json,
    write_json_line,
)
from glassformer.inspect.chapters import NORMAL_95, Chapter, Examination, mean_interval
from glassformer.inspect.page import assembled
from glassformer.machine.host import set_up
from glassformer.models import count_parameters
from glassformer.preprocessing import SETTINGS, load_preprocessing
from glassformer.tasks import load, task_of
from glassformer.tasks.evaluating import SMALLER_IS_BETTER, QuantizedResult, Result, order
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Objective
from glassformer.training.preparation import DATA, load_objective
from glassformer.training.run_folder import REPORT, RunFolder
from glassformer.wording import command, counted, first_line, joined, score_name

# --- the outcome ---


@dataclass(frozen=True)
class FinalTest:
    """How good the best model of a finished run is on its test set: the content of test.json."""

    model: str
    """The checksum of the weights that were tested."""
    headline: str
    scores: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The result of a run: its folder, its last step, and the scores of its best model."""

    folder: Path
    step: int
    standing: Standing
    objective: Objective
    stopped_by: int | None = None
    """The signal that ended it early, if one did."""
    stopped_early: bool = False
    """Whether it did not improve for `early_stopping` validations."""
    is_old: bool = False
    """Whether the run was complete already."""
    test: FinalTest | None = None
    report: Path | None = None
    """The page about the run, if it could be written."""

    @property
    def best(self) -> dict[str, float] | None:
        """The scores of the best model, as metrics.csv names them."""
        return self.standing.best

    @property
    def best_step(self) -> int | None:
        return self.standing.best_step

    @property
    def max_steps(self) -> int:
        return self.objective.config.last_step

    @property
    def exit_code(self) -> int:
        return 0 if self.stopped_by is None else 128 + self.stopped_by

    @property
    def is_trained(self) -> bool:
        """Whether there is no step left to make."""
        return self.step >= self.max_steps or self.stopped_early

    def summary(self) -> str:
        if self.stopped_by is not None:
            again = command("train", "--resume", "--out", self.folder)
            if self.is_trained:
                has_test = bool(self.objective.recipe.test_paths) and self.test is None
                left = "the test and the report are" if has_test else "the report is"
                return (
                    f"stopped after the last step: {self.folder} is trained and saved, but {left} "
                    f"missing. Complete it with: {again}"
                )
            where = f"at step {self.step:,} of {self.max_steps:,}; nothing is lost"
            return (
                f"stopped {where if self.step else 'before the first step'}. Continue with: {again}"
            )
        if self.best is None:
            return f"{self.folder}: no validation was run."
        why = f"stopped early at step {self.step:,}. " if self.stopped_early else ""
        if self.is_old:
            why = f"already finished, at step {self.step:,}. "
        measure = self.objective.measure
        test = "" if self.test is None else f"Test: {self.test.headline}. "
        report = "" if self.report is None else f"Report: {self.report}. "
        notes = "".join(f"{note[:1].upper()}{note[1:]} " for note in self.standing.notes)
        return (
            f"{why}{self.folder}: validation {score_name(measure)} "
            f"{self.best[f'val_{measure}']:.4f} at step {self.best_step:,}. {notes}{test}{report}"
            f"Try: {command(*self.objective.trials(self.folder)[0])}"
        )

    def as_json(self) -> str:
        test = {"test": self.test and self.test.scores} if self.objective.recipe.test_paths else {}
        return json.dumps(
            {
                "run": str(self.folder),
                "step": self.step,
                "max_steps": self.max_steps,
                **(self.best or {f"val_{name}": None for name in self.objective.measures}),
                "best_step": self.best_step,
                "notes": self.standing.notes,
                "finished": self.stopped_by is None,
                "report": None if self.report is None else str(self.report),
                **test,
            },
            ensure_ascii=False,
        )


# --- the model card ---


def model_card(objective: Objective, num_parameters: int, result: Result, step: int) -> str:
    """Markdown without dates and paths: equal models have equal cards."""
    recipe, dataset = objective.recipe, objective.dataset
    context = recipe.model.get("context_length")
    data = ", ".join(Path(path).name for path in recipe.data_names)
    inputs = dataset.preprocessing.summary()
    lines = [
        f"# {recipe.model_name} {recipe.preset or ''}".rstrip(),
        "",
        f"Trained with glassformer {__version__} and torch {torch.__version__}. The run folder "
        "has the recipe (`recipe.yaml`) and the losses by step (`metrics.csv`).",
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {num_parameters:,} |",
        f"| context | {counted(context, dataset.unit) if context else 'any'} |",
        *(f"| {name} | {value} |" for name, value in inputs.items()),
        *_origin(recipe),
        f"| data | {data} |",
        f"| size | {dataset.describe()} |",
        f"| held out | {result.headline()}, after step {step:,} |",
        f"| seed | {recipe.training.seed} |",
        "",
        "```",
        *(f"glassformer {shlex.join(map(str, words))}" for words in objective.trials(".")),
        "```",
        "",
    ]
    return "\n".join(lines)


def _origin(recipe: Recipe) -> list[str]:
    """The models that it began with, if any."""
    start = recipe.start
    if start is None:
        return []
    how = "trained further from" if start.continues else "fine-tuned from"
    lora = f", by LoRA of rank {start.lora_rank}" if start.lora_rank else ""
    return [f"| {how} | {', '.join(start.lineage)}{lora} |"]


def with_test(card: str, headline: str, paths: Sequence[str]) -> str:
    """The card with the row of the test, added or replaced."""
    row = f"| test | {headline}, in {', '.join(Path(path).name for path in paths)} |"
    lines = [line for line in card.splitlines() if not line.startswith("| test |")]
    rows = (at for at, line in enumerate(lines, 1) if line.startswith("| held out |"))
    end = next(rows, len(lines))  # at the end of a card that somebody rewrote
    return "\n".join([*lines[:end], row, *lines[end:], ""])


# --- the test ---

RESULT = "test.json"  # in a run's folder


def add_test(outcome: Outcome, stream: TextIO) -> Outcome:
    """The outcome of a finished run with its test, if there is one. The scores stay in the folder,
    and are computed again only if the model has changed."""
    paths = outcome.objective.recipe.test_paths
    if not paths or outcome.best is None:
        return outcome
    digest = file_digest(outcome.folder / WEIGHTS)
    test = read_test(outcome.folder)
    if test is None or test.model != digest:
        result = _evaluate(outcome, stream)
        test = FinalTest(digest, result.headline(), result.as_json())
        card = outcome.folder / CARD
        text = card.read_text(encoding="utf-8") if card.is_file() else ""
        write_file(card, with_test(text, test.headline, paths))
        write_json(outcome.folder / RESULT, asdict(test))  # last: one that was cut off is repeated
    return replace(outcome, test=test)


def read_test(folder: Path) -> FinalTest | None:
    """The test of a run; None if there is none, or what is there is damaged."""
    try:
        return FinalTest(**json.loads((folder / RESULT).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _evaluate(outcome: Outcome, stream: TextIO) -> Result:
    """The result of `glassformer evaluate` on the run's own copy of the test data."""
    arguments = outcome.objective.dataset.test_data()
    if arguments is None:
        raise GlassformerError(f"{outcome.folder} has lost its test data. Train it with --force.")
    result: Result = load(outcome.folder).evaluate(**arguments)
    for note in result.notes:
        print(f"note: test: {note}", file=stream)
    return result


# --- the report of a run ---
# Chapters of plain data, each with the name of the picture that draws it: neither the page nor its
# JSON knows a task, and a task that examines nothing still has facts, curves and samples.

Facts = dict[str, Any]

NAMES = {  # of settings whose key is an abbreviation
    "d_model": "width",
    "d_feedforward": "width of the feed-forward layer",
    "d_embedding": "width of the embeddings",
    "head_dim": "width of a head",
    "mlp_ratio": "feed-forward widths per width",
    "norm_eps": "epsilon of the norms",
    "vocab_size": "vocabulary",
    "char_ngrams": "longest sequence of characters",
    "ngrams": "longest sequence of tokens",
    "lr_scheduler_type": "learning rate schedule",
    "ema": "decay of the averaged weights",
    "max_grad_norm": "largest gradient norm",
}

# Of the section training: what people compare. The rest is in the recipe.
HIGHLIGHTS = (
    "optimizer",
    "learning_rate",
    "lr_scheduler_type",
    "warmup_steps",
    "weight_decay",
    "ema",
    "max_grad_norm",
    "early_stopping",
    "seed",
    "device",
    "precision",
)


def report_of(run: RunFolder) -> dict[str, Any]:
    """Everything that the report of a run shows, for JSON."""
    if not run.exists:
        raise GlassformerError(run.missing())
    recipe = run.recipe()
    threads = torch.get_num_threads()
    try:
        set_up(threads=recipe.training.num_threads or threads, precision="float32")
        return _report(run, recipe)
    finally:
        torch.set_num_threads(threads)


def _report(run: RunFolder, recipe: Recipe) -> dict[str, Any]:
    lost = _lost_data(run)
    objective = None if lost else load_objective(recipe, run.path)
    rows = read_metrics(run.path / METRICS)
    record = objective or _Record.of(recipe, rows)
    model = None
    seen = Examination()
    if (run.path / WEIGHTS).is_file():
        model = load_model(run.path).model
        model.to(set_up(threads=torch.get_num_threads(), precision="float32").device)
        if objective is not None:
            seen = objective.examine(model)
    name = f"{recipe.model_name} {recipe.preset or ''}".rstrip()
    test = read_test(run.path)
    return {
        "title": f"{name}, trained on {_names(recipe.data_names)}",
        "facts": {
            "Model": _model_facts(recipe, model),
            "Data": _data_facts(run, recipe, objective),
            "Training": _training_facts(run, recipe, objective),
        },
        "measure": record.measure,
        "smaller_is_better": sorted(SMALLER_IS_BETTER),
        "best": _best(rows, record),
        "notes": [*lost, *seen.notes],
        "test": test and test.headline,
        "metrics": curves_of(rows),
        "about_loss": _about_loss(recipe),
        "samples": [{"step": step, "text": text} for step, text in read_samples(run.path)],
        "chapters": [chapter.as_json() for chapter in seen.chapters],
        "answers": {"measure": seen.measure, "rows": [asdict(answer) for answer in seen.answers]},
        "tensorboard": "tensorboard" in recipe.training.report_to,
        "version": __version__,
    }


def _lost_data(run: RunFolder) -> list[str]:
    """A sentence if the data of a run is missing or damaged."""
    try:
        check_folder(run.path / DATA)
    except GlassformerError as error:
        problem = str(error).replace(str(run.path / DATA), DATA)
        return [
            f"{problem} The report is made of the curves, the samples and the model. The chapters "
            "about held-out data are left out."
        ]
    return []


@dataclass(frozen=True)
class _Record:
    """The part of an objective that needs no data. (The data may choose the measure.)"""

    measure: str
    decides: str

    @classmethod
    def of(cls, recipe: Recipe, rows: list[dict[str, str]]) -> "_Record":
        kind = task_of(recipe.model_name).objective
        measure: Any = kind.measure
        if measure is Objective.measure:
            measure = "loss"
        elif not isinstance(measure, str):  # of labels: macro F1 says more wherever it is recorded
            names = ("f1", "macro_f1", "accuracy")
            measure = next(name for name in names if not rows or f"val_{name}" in rows[0])
        decides: Any = kind.decides
        return cls(measure, decides if isinstance(decides, str) else measure)

    def rank(self, columns: Mapping[str, float]) -> tuple[float, float]:
        return order(self.decides, columns[f"val_{self.decides}"], columns["val_loss"])


def _names(paths: tuple[str, ...]) -> str:
    """The names of files without their folders, which differ between machines."""
    return ", ".join(Path(path).name or path for path in paths)


def _model_facts(recipe: Recipe, model: torch.nn.Module | None) -> Facts:
    facts: Facts = {"model": recipe.model_name, "preset": recipe.preset}
    facts["parameters"] = None if model is None else count_parameters(model)
    start = recipe.start
    if start is not None:
        how = "trained further from" if start.continues else "fine-tuned from"
        facts[how] = ", ".join(start.lineage) or Path(start.model).name
    shape = recipe.architecture().model_dump(mode="json")
    if shape.get("positions") != "rotary":
        shape.pop("rotary_base", None)
    facts |= {_words(key): value for key, value in shape.items() if _is_plain(value)}
    if labels := shape.get("labels"):
        facts["labels"] = len(labels)
    return _known(facts)


def _data_facts(run: RunFolder, recipe: Recipe, objective: Objective | None) -> Facts:
    data = recipe.data
    facts: Facts = {"data": _names(recipe.data_names)}
    if objective is not None:
        facts |= {_words(key): value for key, value in objective.dataset.facts().items()}
    held_out = [
        path
        for key, paths in data.model_dump().items()
        if key.startswith("validation_") and key.endswith("paths")
        for path in paths
    ]
    if held_out:
        facts["held out"] = _names(tuple(held_out))
    elif "validation_fraction" in type(data).model_fields:
        facts["held out"] = "a part of the data"
    if recipe.test_paths:
        facts["test data"] = _names(recipe.test_paths)
    if objective is not None:
        facts |= objective.dataset.preprocessing.summary()
    elif (run.path / SETTINGS).is_file():
        facts |= load_preprocessing(run.path).summary()
    return _known(facts)


def _training_facts(run: RunFolder, recipe: Recipe, objective: Objective | None) -> Facts:
    config = recipe.decided
    batch = config.per_device_train_batch_size * config.batches_per_update
    done = run.last_step()
    facts: Facts = {"steps": config.last_step}
    if done < config.last_step:
        facts["steps"] = f"{done:,} of {config.last_step:,}"
    if objective is not None:
        epochs = config.last_step * config.batches_per_update / objective.batches.per_epoch
        facts["epochs"] = round(epochs, 2)
    facts["rows in a batch"] = batch
    values = config.model_dump(mode="json")
    facts |= {_words(key): values[key] for key in HIGHLIGHTS if values[key] != 0 or key == "seed"}
    section = getattr(recipe, "objective", None)  # a section of some tasks
    if isinstance(section, Config):
        values = section.model_dump(mode="json")
        facts |= {_words(key): value for key, value in values.items() if value}
    return _known(facts)


def _words(key: str) -> str:
    return NAMES.get(key) or key.removeprefix("num_").replace("_", " ")


def _is_plain(value: Any) -> bool:
    """Whether a value of a config is worth a line: not a switch, and not turned off."""
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != 0


def _known(facts: Facts) -> Facts:
    return {key: value for key, value in facts.items() if value is not None}


def _about_loss(recipe: Recipe) -> str:
    """Why the two losses of the curves differ, beside what was learned by heart."""
    shape = recipe.architecture().model_dump(mode="json")
    values = recipe.model_dump(mode="json")
    section = values.get("objective") or {}
    causes = {
        "dropout": any(value for key, value in shape.items() if key.endswith("dropout")),
        "label smoothing": section.get("label_smoothing"),
        "augmented images": _augments(values.get("augmentation") or {}),
    }
    parts = [name for name, is_on in causes.items() if is_on]
    text = "Training loss is the mean over the batches since the point before"
    if parts:
        those = "them" if len(parts) > 1 else "it"
        text += f", with {joined(parts)}; validation loss is measured without {those}"
    else:
        text += "; validation loss is measured on held-out data"
    if recipe.training.ema:
        text += f"{', and' if parts else ''} with averaged weights"
    return f"{text}. So training loss may be the higher one." if parts else f"{text}."


def _augments(values: dict[str, Any]) -> bool:
    """Whether images are varied at all."""
    usual = AugmentationConfig().model_dump()
    strengths = {key: value for key, value in values.items() if key != "magnitude"}
    return any(value not in (None, usual.get(key)) for key, value in strengths.items())


def _best(rows: list[dict[str, str]], record: Objective | _Record) -> dict[str, Any] | None:
    """The step whose model was kept, as the training chose it: the first of the best."""
    scores = {
        int(row["step"]): {
            key: float(text) for key, text in row.items() if key.startswith("val_") and text
        }
        for row in rows
        if row.get("val_loss")
    }
    if not scores:
        return None
    step = min(scores, key=lambda step: record.rank(scores[step]))
    return {"step": step, "scores": scores[step]}


# --- several runs side by side ---
# Their scores in one table, and the inputs on which they differ.

MOST_SHOWN = 20
Report = dict[str, Any]


def compare(names: Sequence[str], reports: Sequence[Report]) -> list[Chapter]:
    """Chapters about all runs; none for a single run."""
    if len(reports) < 2:
        return []
    chapters = [_scores(names, reports)]
    answers = [
        {(row["input"], row["expected"]): row for row in report["answers"]["rows"]}
        for report in reports
    ]
    # Of a large model, fewer inputs were examined.
    if same := [key for key in answers[0] if all(key in rows for rows in answers)]:
        shared = [[rows[key] for key in same] for rows in answers]
        chapters += _differences(names, shared, reports[0]["answers"]["measure"])
    return chapters


def _scores(names: Sequence[str], reports: Sequence[Report]) -> Chapter:
    """The validation scores of every run's best model, and an interval where one is known."""
    measures = list(dict.fromkeys(key for report in reports for key in _best_run(report)["scores"]))
    answered = [report["answers"] for report in reports]
    columns = ["run", "model", "parameters", "best step"]
    columns += [score_name(key) for key in measures]
    kinds = ["label", "label", "count", "count", *["number" for _ in measures]]
    with_answers = next((answers["measure"] for answers in answered if answers["rows"]), None)
    if with_answers:
        columns += [f"{with_answers} in this report", "95% interval"]
        kinds += ["number", "interval"]
    rows = []
    for name, report, answers in zip(names, reports, answered, strict=True):
        model, best = report["facts"]["Model"], _best_run(report)
        shape = " ".join(filter(None, [model["model"], model.get("preset")]))
        row = [name, shape, model.get("parameters"), best["step"]]
        row += [best["scores"].get(key) for key in measures]
        if with_answers:
            scores = [answer["score"] for answer in answers["rows"]]
            row += [float(np.mean(scores)), list(mean_interval(scores))] if scores else [None, None]
        rows.append(row)
    note = "Held-out scores of the best model of each run. They can be compared only if the runs "
    note += "hold out the same data."
    return Chapter("Scores", "table", {"columns": columns, "kinds": kinds, "rows": rows}, note)


def _best_run(report: Report) -> Report:
    return report["best"] or {"step": None, "scores": {}}


def _differences(
    names: Sequence[str], answers: Sequence[list[dict[str, Any]]], measure: str
) -> list[Chapter]:
    """The inputs on which the runs differ most, if there are any."""
    scores = np.array([[row["score"] for row in rows] for rows in answers])  # (runs, inputs)
    spread = scores.max(0) - scores.min(0)
    if not spread.any():
        return []
    largest = np.argsort(-spread, kind="stable")[:MOST_SHOWN]
    columns = ["input", "expected", *names]
    kinds = ["text", "label", *["answer" for _ in names]]
    rows = [
        [
            answers[0][index]["input"],
            answers[0][index]["expected"],
            *([rows[index]["found"], rows[index]["score"]] for rows in answers),
        ]
        for index in largest.tolist()
        if spread[index] > 0
    ]
    note = f"The runs were given the same {scores.shape[1]:,} held-out inputs and differ on "
    note += f"{int((spread > 0).sum()):,} of them. {_summary(names, scores, measure)}"
    data = {"columns": columns, "kinds": kinds, "rows": rows}
    return [Chapter("Different answers", "table", data, note)]


def _summary(names: Sequence[str], scores: "np.ndarray[Any, Any]", measure: str) -> str:
    """A sentence on two runs: how much better the second is, input by input."""
    if len(names) != 2:
        return f"The largest differences in {measure} come first."
    first, second = scores
    gain = second - first
    reach = NORMAL_95 * gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    text = f"{names[1]} is better on {better:,} and worse on {worse:,}"
    if not np.isfinite(reach):
        return f"{text}."
    low, high = gain.mean() - reach, gain.mean() + reach
    return f"{text}: {measure} {gain.mean():+.4f} (95% interval {low:+.4f} to {high:+.4f})."


# --- the page ---

# One file for each kind of picture; `report.js` comes last and draws them.
PICTURES = (
    "table",
    "curves",
    "confusion",
    "classes",
    "calibration",
    "trend",
    "histogram",
    "tagged",
    "tokens",
    "heat_maps",
    "places",
)
ENDINGS = (".html", ".json")
STYLES = ("page.css", "report.css")
SCRIPTS = ("elements.js", "scales.js", *(f"pictures/{name}.js" for name in PICTURES), "report.js")


def page(reports: Sequence[Report], names: Sequence[str] = ("",)) -> str:
    """One HTML page. Equal reports give equal bytes."""
    together = [chapter.as_json() for chapter in compare(names, reports)]
    runs = [
        {key: value for key, value in report.items() if key != "answers"} | {"name": name}
        for name, report in zip(names, reports, strict=True)
    ]
    about = "This page is the report on a training or an evaluation."
    return assembled("Report", "", STYLES, SCRIPTS, {"runs": runs, "together": together}, about)


def as_json(reports: Sequence[Report], names: Sequence[str]) -> dict[str, Any]:
    """The reports as JSON, with all digits."""
    runs = [{"run": name} | report for name, report in zip(names, reports, strict=True)]
    return {"runs": runs, "together": [chapter.as_json() for chapter in compare(names, reports)]}


def draw(reports: Sequence[Report], names: Sequence[str], path: Path) -> None:
    """Write the report to `path`, whole or not at all."""
    if check_ending(path, ENDINGS) == ".json":
        write_json_line(path, as_json(reports, names))
    else:
        write_file(path, page(reports, names))


def write_report(outcome: Outcome, run: RunFolder, stream: TextIO) -> Outcome:
    """The outcome with its page, which is written unless it is there already."""
    path = run.path / REPORT
    if not path.is_file():
        try:
            write_file(path, page([report_of(run)]))
        except Exception as error:  # the model is trained and saved: nothing here may undo that
            print(f"note: no {REPORT} was written: {first_line(error)}", file=stream)
            return outcome
    return replace(outcome, report=path)


# --- the cost of 8-bit weights ---


def cost_of_quantizing(
    model: str | os.PathLike[str], kind: str, paths: Sequence[str] | None
) -> str | None:
    """The scores before and after, in a line: on files, or else on the validation data of a run.
    None if there is neither."""
    run = RunFolder(Path(model))
    if paths is not None:
        original, quantized = (load(model, how).evaluate(paths) for how in (None, kind))
    elif run.exists:
        objective = load_objective(run.recipe(), run.path)
        original, quantized = (objective.validate(load(model, how).model) for how in (None, kind))
    else:
        return None
    return QuantizedResult(kind, original, quantized).summary()
