"""The test of a run: its best model, on data that had no say in anything, once and at the end."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from glassformer.checkpoint.atomic import file_digest, write_file
from glassformer.checkpoint.folder import CARD, WEIGHTS
from glassformer.data import kept
from glassformer.errors import GlassformerError
from glassformer.predict import load
from glassformer.predict.classifier import ClassificationFound, ClassifyPredictor
from glassformer.predict.series import SeriesPredictor
from glassformer.predict.tagger import TaggingFound, TagPredictor
from glassformer.training.card import with_test
from glassformer.training.outcome import FinalScores, Outcome
from glassformer.training.tasks.classify import Found
from glassformer.training.tasks.tag import TagsFound
from glassformer.training.tasks.task import DATA

RESULT = "test.json"  # in a run's folder


def tested(outcome: Outcome, stream: TextIO) -> Outcome:
    """The outcome of a finished run with its test, if there is one. What was found stays in the
    folder, and is found again only if the model has become another one."""
    paths = outcome.task.recipe.test_paths
    if not paths or outcome.stopped_by is not None or outcome.best is None:
        return outcome
    digest = file_digest(outcome.folder / WEIGHTS)
    found = _saved(outcome.folder / RESULT, digest)
    if found is None:
        found = _judged(outcome.folder, stream)
        card = outcome.folder / CARD
        text = card.read_text(encoding="utf-8") if card.is_file() else ""
        write_file(card, with_test(text, found.headline, paths))
        values = {"model": digest, "headline": found.headline, "scores": found.scores}
        # Last: a test that was cut off is done again.
        write_file(outcome.folder / RESULT, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return replace(outcome, test=found)


def _saved(path: Path, digest: str) -> FinalScores | None:
    """What was found of the model with these weights; None if it was not, or is damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = FinalScores(values["scores"], values["headline"])
        return found if values["model"] == digest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _judged(folder: Path, stream: TextIO) -> FinalScores:
    found = _evaluated(folder)
    for note in found.notes:
        print(f"note: test: {note}", file=stream)
    if isinstance(found, ClassificationFound):
        return FinalScores(found.as_json(), Found(found.scores).headline())
    return FinalScores(found.as_json(), TagsFound(found.scores, found.scores.f1).headline())


def _evaluated(folder: Path) -> ClassificationFound | TaggingFound:
    """As by `glassformer evaluate`."""
    predictor, data = load(folder), folder / DATA
    match predictor:
        case ClassifyPredictor():
            text, label = kept.OF_EXAMPLES
            return predictor.evaluate(str(data / kept.ROWS), (text,), label)
        case TagPredictor():
            text, label = kept.OF_SENTENCES
            return predictor.evaluate(str(data / kept.ROWS), (text,), label)
        case SeriesPredictor():
            return predictor.evaluate(str(data / kept.ARRAYS))
    raise GlassformerError(f"{folder} holds a model without labels, which cannot be tested.")
