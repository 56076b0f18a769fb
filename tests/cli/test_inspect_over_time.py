"""`inspect --over-time`: a text through the training of a model."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

TEXT = "the quick brown fox"
STEPS = [0, 1, 2, 5, 10, 20]


def test_without_a_file_there_is_a_line_for_each_step(glassformer: Any, run: Any) -> None:
    result = glassformer("inspect", run.folder, TEXT, "--over-time")
    assert (result.code, result.err) == (0, "")
    heading, *lines = result.out.splitlines()
    assert heading.split()[:3] == ["step", "after", "'x'"]
    assert [int(line.split()[0]) for line in lines] == STEPS


@pytest.mark.parametrize(
    ("ending", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("html", b"<!doctype html>")]
)
def test_the_ending_chooses_the_picture(
    glassformer: Any, run: Any, tmp_path: Path, ending: str, begin: bytes
) -> None:
    words = ("inspect", run.folder, "--over-time", TEXT, "--out")
    result = glassformer(*words, f"history.{ending}")
    assert (result.code, result.out, result.err) == (0, "", f"wrote history.{ending}\n")
    content = (tmp_path / f"history.{ending}").read_bytes()
    assert content.startswith(begin)
    glassformer(*words, f"again.{ending}")
    assert (tmp_path / f"again.{ending}").read_bytes() == content


def test_json_has_every_step_and_can_be_narrowed(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    words = ("inspect", run.folder, TEXT, "--over-time", "--head", "1")
    found = json.loads(glassformer(*words, "--json").out)
    assert found["steps"] == [each["step"] for each in found["moments"]] == STEPS
    assert (found["layers"], found["heads"]) == ([0], [1])
    for moment in found["moments"]:
        assert len(moment["predictions"]) == len(found["tokens"]) == len(TEXT)
        assert [sum(row) for row in moment["attention"][0][0]] == pytest.approx([1] * len(TEXT))
    assert found["metrics"]["step"][-1] == found["samples"][-1]["step"] == 20
    glassformer(*words, "--out", "history.json")
    assert json.loads((tmp_path / "history.json").read_text()) == found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--view", "heads"), "--over-time is a view of its own: leave out --view heads."),
        (("--layer", "7"), "there is no layer 7: the last one is 0."),
        (("--words",), "the view over-time does not accept --words. It accepts --layer, --head."),
        (("--out", "a.pdf"), "a.pdf: the name must end in .html, .png, .svg or .json."),
    ],
)
def test_what_cannot_be_shown_is_refused(
    glassformer: Any, run: Any, words: tuple[str, ...], sentence: str
) -> None:
    result = glassformer("inspect", run.folder, TEXT, "--over-time", *words)
    assert (result.code, result.error) == (2, sentence)


def test_an_empty_text_is_refused(glassformer: Any, run: Any) -> None:
    assert glassformer("inspect", run.folder, " ", "--over-time").error == "the text is empty."


def test_a_run_without_snapshots_is_told_in_one_sentence(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    shutil.copytree(run.folder, tmp_path / "old", ignore=shutil.ignore_patterns("snapshots"))
    result = glassformer("inspect", "old", TEXT, "--over-time")
    assert result.code == 2
    assert result.error == (
        "old: the run has no snapshots of its weights. Train with --set training.snapshots=12 to "
        "keep some."
    )
    assert glassformer("inspect", "old", TEXT, "--out", "story.html").code == 0
    assert "kept no snapshots" in (tmp_path / "story.html").read_text()


def test_a_model_alone_has_no_history_but_a_story(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    parts = ("recipe.yaml", "snapshots", "metrics.csv", "samples.txt", "data", "checkpoints")
    shutil.copytree(run.folder, tmp_path / "model", ignore=shutil.ignore_patterns(*parts))
    result = glassformer("inspect", "model", TEXT, "--over-time")
    assert result.code == 2
    assert result.error == (
        "model: no training is recorded here: the model is not in a run folder."
    )
    assert glassformer("inspect", "model", TEXT, "--out", "story.html").code == 0
    assert "is left out: no training is recorded here" in (tmp_path / "story.html").read_text()


def test_a_damaged_snapshot_is_named_and_spares_the_story(
    glassformer: Any, run: Any, tmp_path: Path
) -> None:
    shutil.copytree(run.folder, tmp_path / "run")
    file = tmp_path / "run" / "snapshots" / "step-5.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    result = glassformer("inspect", "run", TEXT, "--over-time", "--out", "history.html")
    assert result.code == 1
    assert result.error.startswith("run/snapshots/step-5.safetensors is not a safetensors file")
    assert not (tmp_path / "history.html").exists()
    assert glassformer("inspect", "run", TEXT, "--out", "story.html").code == 0
