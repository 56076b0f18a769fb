"""The final test of a run: its best model, once, on data that had no part in training it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from glassformer.atomic_files import file_digest, write_file
from glassformer.checkpoint.model_folder import CARD, WEIGHTS
from glassformer.errors import GlassformerError
from glassformer.tasks import load
from glassformer.training.model_card import with_test
from glassformer.training.outcome import FinalScores, Outcome

RESULT = "test.json"  # in a run's folder


def tested(outcome: Outcome, stream: TextIO) -> Outcome:
    """The outcome of a finished run with its test, if there is one. The scores stay in the folder,
    and are computed again only if the model has changed."""
    paths = outcome.objective.recipe.test_paths
    if not paths or outcome.stopped_by is not None or outcome.best is None:
        return outcome
    digest = file_digest(outcome.folder / WEIGHTS)
    found = _saved(outcome.folder / RESULT, digest)
    if found is None:
        found = _evaluated(outcome, stream)
        card = outcome.folder / CARD
        text = card.read_text(encoding="utf-8") if card.is_file() else ""
        write_file(card, with_test(text, found.headline, paths))
        values = {"model": digest, "headline": found.headline, "scores": found.scores}
        # Last: a test that was cut off is done again.
        write_file(outcome.folder / RESULT, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
    return replace(outcome, test=found)


def _saved(path: Path, digest: str) -> FinalScores | None:
    """The scores of the model with these weights; None if there are none, or they are damaged."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = FinalScores(values["scores"], values["headline"])
        return found if values["model"] == digest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _evaluated(outcome: Outcome, stream: TextIO) -> FinalScores:
    """As by `glassformer evaluate`, on the run's own copy of the test data."""
    arguments = outcome.objective.dataset.test_data()
    if arguments is None:
        raise GlassformerError(f"{outcome.folder} has lost its test data. Train it with --force.")
    found = load(outcome.folder).evaluate(**arguments)
    for note in found.notes:
        print(f"note: test: {note}", file=stream)
    return FinalScores(found.as_json(), found.headline())
