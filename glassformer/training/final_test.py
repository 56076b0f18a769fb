"""The final test of a run: its best model, once, on data that had no part in training it."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TextIO

from glassformer.atomic_files import file_digest, write_file, write_json
from glassformer.checkpoint.model_folder import CARD, WEIGHTS
from glassformer.errors import GlassformerError
from glassformer.evaluation.result import Result
from glassformer.tasks import load
from glassformer.training.model_card import with_test
from glassformer.training.outcome import FinalTest, Outcome

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
