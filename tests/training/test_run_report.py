"""The report of a run: written at the end, a function of the folder, never a reason to fail."""

import csv
import io
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_tasks import MACHINE, recipe_for, reviews, sentences, trained

from glassformer.errors import GlassformerError
from glassformer.tasks.recipe import Recipe
from glassformer.training import report as final_report
from glassformer.training import run as story
from glassformer.training.preparation import make_recipe
from glassformer.training.report import page, report_of
from glassformer.training.run_folder import RunFolder

Make = Callable[..., Recipe]


def test_a_training_ends_with_a_report_and_its_path(tmp_path: Path, tiny: Make) -> None:
    outcome = story.train(tiny(), RunFolder(tmp_path / "run"), io.StringIO())
    assert outcome.report == tmp_path / "run" / "report.html"
    assert f"Report: {outcome.report}. Try: " in outcome.summary().splitlines()[-1]
    assert json.loads(outcome.as_json())["report"] == str(outcome.report)
    text = outcome.report.read_text()
    assert "notes.txt" in text
    assert str(tmp_path) not in text


def test_a_report_that_was_lost_is_written_again_with_the_same_bytes(
    tmp_path: Path, tiny: Make
) -> None:
    run = RunFolder(tmp_path / "run")
    outcome = story.train(tiny(), run, io.StringIO())
    assert outcome.report is not None
    before = outcome.report.read_bytes()
    outcome.report.unlink()
    again = story.resume(run, io.StringIO())
    assert (again.is_old, again.report) == (True, outcome.report)
    assert outcome.report.read_bytes() == before
    outcome.report.write_text("kept")
    story.resume(run, io.StringIO())
    assert outcome.report.read_text() == "kept"


def test_a_report_that_cannot_be_written_does_not_fail_the_training(
    tmp_path: Path, tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: RunFolder) -> Any:
        raise ZeroDivisionError("nothing works")

    monkeypatch.setattr(final_report, "report_of", broken)
    stream = io.StringIO()
    outcome = story.train(tiny(), RunFolder(tmp_path / "run"), stream)
    assert (outcome.exit_code, outcome.report) == (0, None)
    assert "note: no report.html was written: nothing works." in stream.getvalue()
    assert "Report:" not in outcome.summary()


def test_a_run_that_goes_on_loses_its_old_report(
    tmp_path: Path, tiny: Make, at_batch: Any, signalled: Any
) -> None:
    run = RunFolder(tmp_path / "run")
    at_batch(12, signalled(signal.SIGTERM))
    outcome = story.train(tiny(), run, io.StringIO())
    assert outcome.stopped_by is not None
    assert not (run.path / "report.html").exists()
    (run.path / "report.html").write_text("old")
    assert story.resume(run, io.StringIO()).report is not None
    assert (run.path / "report.html").read_text() != "old"


def test_a_run_without_a_validation_has_a_report_without_scores(
    tmp_path: Path, tiny: Make, at_batch: Any, signalled: Any
) -> None:
    run = RunFolder(tmp_path / "run")
    at_batch(2, signalled(signal.SIGTERM))
    story.train(tiny(), run, io.StringIO())
    found = report_of(run)
    assert (found["best"], found["chapters"], found["samples"]) == (None, [], [])
    assert found["facts"]["Training"]["steps"] == "2 of 12"
    assert "parameters" not in found["facts"]["Model"]


@pytest.mark.parametrize("damage", [shutil.rmtree, lambda data: next(data.iterdir()).unlink()])
def test_a_run_without_its_data_has_a_report_of_its_curves_and_its_model(
    tmp_path: Path, tiny: Make, damage: Callable[[Path], None]
) -> None:
    run = RunFolder(tmp_path / "run")
    story.train(tiny(), run, io.StringIO())
    whole = report_of(run)
    damage(run.path / "data")
    found = report_of(run)
    (note,) = found["notes"]
    assert note.startswith("data")
    assert "chapters about held-out data are left out" in note
    assert "--force" not in note
    assert str(tmp_path) not in note
    assert found["chapters"] == []
    for key in ("title", "measure", "best", "metrics", "samples", "test"):
        assert found[key] == whole[key]
    for part in ("Model", "Data", "Training"):
        assert found["facts"][part].items() <= whole["facts"][part].items()
    assert found["facts"]["Model"] == whole["facts"]["Model"]
    assert "Report" in page([found])


@pytest.mark.parametrize(("model", "measure"), [("bag", "macro_f1"), ("tagger", "f1")])
def test_labels_are_judged_by_f1_if_the_data_is_gone(
    tmp_path: Path, model: str, measure: str
) -> None:
    data = reviews(tmp_path) if model == "bag" else sentences(tmp_path)
    folder = trained(recipe_for(model, data, max_steps=2), tmp_path / "run")
    best = report_of(RunFolder(folder))["best"]
    shutil.rmtree(folder / "data")
    found = report_of(RunFolder(folder))
    assert (found["measure"], found["best"]) == (measure, best)


def test_settings_have_names_and_the_losses_say_what_they_are_measured_with(
    tmp_path: Path, tiny: Make
) -> None:
    run = RunFolder(tmp_path / "run")
    story.train(tiny({"dropout": 0.0, "positions": "learned"}, ema=0.0), run, io.StringIO())
    found = report_of(run)
    names = [name for facts in found["facts"].values() for name in facts]
    assert {"width", "learning rate schedule"} <= set(names)
    assert not {"d model", "lr scheduler type", "rotary base"} & set(names)
    assert found["about_loss"] == (
        "Training loss is the mean over the batches since the point before; validation loss is "
        "measured on held-out data."
    )
    other = RunFolder(tmp_path / "other")
    story.train(tiny({"positions": "rotary"}, ema=0.9), other, io.StringIO())
    found = report_of(other)
    assert "rotary base" in found["facts"]["Model"]
    assert found["about_loss"] == (
        "Training loss is the mean over the batches since the point before, with dropout; "
        "validation loss is measured without it, and with averaged weights. So training loss may "
        "be the higher one."
    )


def test_the_best_step_is_the_one_that_the_training_kept(tmp_path: Path, tiny: Make) -> None:
    run = RunFolder(tmp_path / "run")
    outcome = story.train(tiny(), run, io.StringIO())
    best = report_of(run)["best"]
    assert (best["step"], best["scores"]) == (outcome.best_step, outcome.best)


def test_the_score_that_decides_names_the_best_step_not_the_one_that_is_shown(
    tmp_path: Path,
) -> None:
    steps = {"max_steps": 12, "eval_steps": 4}
    values = {
        "model": {"name": "bag"},
        "data": {"paths": [str(reviews(tmp_path))]},
        "training": steps | MACHINE,
    }
    run = RunFolder(tmp_path / "run")
    story.train(make_recipe(values), run, io.StringIO())
    with (run.path / "metrics.csv").open(newline="") as file:
        table = csv.DictReader(file)
        rows, names = list(table), table.fieldnames or []
    scores = {"4": ("0.5", "0.9"), "8": ("0.4", "0.8"), "12": ("0.6", "0.7")}
    for row in rows:
        if row["step"] in scores:
            row["val_loss"], row["val_accuracy"] = scores[row["step"]]
    with (run.path / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    best = report_of(run)["best"]
    assert (best["step"], best["scores"]["val_accuracy"]) == (8, 0.8)


def test_a_folder_without_a_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GlassformerError, match=r"contains no run: there is no recipe\.yaml"):
        report_of(RunFolder(tmp_path))
