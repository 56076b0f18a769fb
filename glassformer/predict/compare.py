"""Models side by side on the same data, each with how sure one can be of its score."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.examples import read_examples
from glassformer.data.labelled import LabelledConfig, read_labelled
from glassformer.data.splits import listed
from glassformer.errors import GlassformerError, UsageError
from glassformer.predict import load
from glassformer.predict.classifier import ClassificationFound, ClassifyPredictor
from glassformer.predict.language import LanguagePredictor
from glassformer.predict.masked import MaskedPredictor
from glassformer.predict.series import SeriesPredictor
from glassformer.predict.tagger import TagPredictor
from glassformer.predict.translator import TranslatePredictor
from glassformer.training.baseline import TfidfBaseline
from glassformer.training.card import count_parameters
from glassformer.training.entities import Tagging
from glassformer.training.run_folder import RunFolder
from glassformer.training.scores import Classification, judge, wilson

if TYPE_CHECKING:
    from glassformer.predict import Predictor

BASELINE = "TF-IDF + logistic regression"


@dataclass(frozen=True)
class Row:
    """A model and its scores, the first of which is the one that counts."""

    name: str
    num_parameters: int | None
    scores: dict[str, float]
    interval: tuple[float, float] | None
    """95 % interval of the first score: Wilson's of a share of right answers, the bootstrap's of
    entity F1; None of a loss."""

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "num_parameters": self.num_parameters,
            **self.scores,
            "interval": None if self.interval is None else list(self.interval),
        }


@dataclass(frozen=True)
class Comparison:
    rows: list[Row]
    notes: list[str]

    def text(self) -> str:
        names = list(self.rows[0].scores)
        words = [name.removeprefix("expected_").replace("_", " ") for name in names]
        head = ["model", "parameters", words[0], "95 % interval", *words[1:]]
        lines = [head, *(self._cells(row, names) for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    @staticmethod
    def _cells(row: Row, names: list[str]) -> list[str]:
        first, *rest = (f"{row.scores[name]:.4f}" if name in row.scores else "-" for name in names)
        size = "-" if row.num_parameters is None else f"{row.num_parameters:,}"
        interval = "-" if row.interval is None else "{:.4f} to {:.4f}".format(*row.interval)
        return [row.name, size, first, interval, *rest]


def compare(
    folders: Sequence[Path],
    paths: Sequence[str],
    text_column: Sequence[str] = (),
    label_column: str | None = None,
    encoding: str = "utf-8",
    with_baseline: bool = True,
) -> Comparison:
    """Evaluate every model on the same files. The best comes first; of equal ones, that with the
    lower loss."""
    predictors = [load(folder) for folder in folders]
    if len({type(predictor) for predictor in predictors}) > 1:
        raise UsageError(
            "these models have different tasks, so that their scores say nothing of each other. "
            "Name models of one task."
        )
    _check_labels(folders, predictors)
    rows: list[Row] = []
    said: dict[str, tuple[str, ...]] = {}
    for folder, predictor in zip(folders, predictors, strict=True):
        name = str(folder)
        row, said[name] = _row(name, predictor, paths, text_column, label_column, encoding)
        rows.append(row)
    if len({*said.values()}) == 1:
        notes = list(said[name])
    else:  # what was left out differs, and so do the examples that they were judged by
        notes = [f"{name}: {note}" for name, each in said.items() for note in each]
    first = predictors[0]
    if with_baseline and isinstance(first, ClassifyPredictor):
        try:
            rows.append(_baseline(folders[0], first, paths, text_column, label_column, encoding))
        except GlassformerError as error:
            notes.append(f"no baseline: {error}")
    is_loss = isinstance(first, LanguagePredictor | MaskedPredictor)
    sign = 1 if is_loss else -1
    rows.sort(key=lambda row: (sign * next(iter(row.scores.values())), row.scores["loss"]))
    return Comparison(rows, notes)


def _check_labels(folders: Sequence[Path], predictors: "Sequence[Predictor]") -> None:
    """Models that have no label in common were trained to say different things."""
    first, *others = ({*getattr(each.model, "labels", ())} for each in predictors)
    for folder, labels in zip(folders[1:], others, strict=True):
        if first and not first & labels:
            raise UsageError(
                f"{folders[0]} and {folder} have no label in common "
                f"({listed(sorted(first), 3)}; {listed(sorted(labels), 3)}). Name models of the "
                "same labels."
            )


def _row(
    name: str,
    predictor: "Predictor",
    paths: Sequence[str],
    text_column: Sequence[str],
    label_column: str | None,
    encoding: str,
) -> tuple[Row, tuple[str, ...]]:
    size = count_parameters(predictor.model)
    match predictor:
        case ClassifyPredictor() | SeriesPredictor():
            found = predictor.evaluate(paths, text_column, label_column, encoding)
            return Row(name, size, _shown(found.scores), found.scores.interval), found.notes
        case TagPredictor():
            tags = predictor.evaluate(paths, text_column, label_column, encoding)
            return Row(name, size, *_shown_of_tags(tags.scores)), tags.notes
        case MaskedPredictor():
            hidden = predictor.evaluate(paths, text_column, encoding)
            return Row(name, size, {"loss": hidden.loss, "accuracy": hidden.accuracy}, None), ()
        case LanguagePredictor():
            text = predictor.evaluate(paths, text_column, encoding)
            scores = {
                "bits_per_byte": text.bits_per_byte,
                "loss": text.loss,
                "perplexity": text.perplexity,
            }
            return Row(name, size, scores, None), ()
        case TranslatePredictor():
            pairs = predictor.evaluate(paths, encoding=encoding)
            quality = {"bleu": pairs.bleu, "chrf": pairs.chrf, "loss": pairs.loss}
            return Row(name, size, quality, None), ()


def _shown(scores: Classification) -> dict[str, float]:
    return {
        "accuracy": scores.accuracy,
        "macro_f1": scores.macro_f1,
        "loss": scores.loss,
        "expected_calibration_error": scores.expected_calibration_error,
    }


def _shown_of_tags(scores: Tagging) -> tuple[dict[str, float], tuple[float, float] | None]:
    """And the interval of the first."""
    shown = {"accuracy": scores.accuracy, "loss": scores.loss}
    if scores.expected_calibration_error is not None:
        shown["expected_calibration_error"] = scores.expected_calibration_error
    if scores.f1 is not None:
        return {"f1": scores.f1} | shown, scores.f1_interval
    return shown, wilson(round(scores.accuracy * scores.num_words), scores.num_words)


def _baseline(
    folder: Path,
    predictor: ClassifyPredictor,
    paths: Sequence[str],
    text_column: Sequence[str],
    label_column: str | None,
    encoding: str,
) -> Row:
    """Trained on what the first run was trained on, and nothing else."""
    run = RunFolder(folder)
    if not run.exists:
        raise GlassformerError(f"{folder} does not say what it was trained on.")
    recipe = run.recipe()
    if not isinstance(recipe.data, LabelledConfig):
        raise GlassformerError(f"{folder} was not trained on labelled texts.")
    split = read_labelled(recipe.data, recipe.training.seed)
    if split.labels != predictor.model.labels:
        raise GlassformerError(f"the data of {folder} has other labels than when it was trained.")
    config = predictor.config
    test = read_examples(
        paths, text_column or config.text_column, label_column or config.label_column, encoding
    )
    known = [each for each in test.examples if set(split.labels).issuperset(each.labels)]
    baseline = TfidfBaseline(
        [example.text for example in split.training],
        [example.labels for example in split.training],
        split.labels,
        split.is_multi_label,
        recipe.training.seed,
    )
    scores = judge(
        baseline.logits([example.text for example in known]),
        predictor.targets(known),
        split.labels,
        multi_label=split.is_multi_label,
    )
    scores = ClassificationFound(scores, {}).with_wrong(len(test.examples) - len(known)).scores
    return Row(BASELINE, None, _shown(scores), scores.interval)
