"""`glassformer report` for every task, and `evaluate --errors`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

CHAPTERS = {
    "reviews": ["Classes", "Calibration"],
    "topics": ["Classes", "Calibration"],
    "names": ["Confusion matrix", "Entities", "Calibration"],
    "bert": ["Masked tokens"],
    "gpt": ["Loss by position in the context", "Surprising tokens"],
}


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_task_has_its_chapters(glassformer: Any, shelf: Path, name: str) -> None:
    result = glassformer("report", shelf / "runs" / name, "--json")
    assert (result.code, result.err) == (0, "")
    (run,) = json.loads(result.out)["runs"]
    titles = [each["title"] for each in run["chapters"]]
    assert [title for title in titles if title in CHAPTERS[name]] == CHAPTERS[name]
    assert all(each["data"] for each in run["chapters"])
    assert run["run"] == str(shelf / "runs" / name)


def test_a_translator_shows_translations_and_alignments(glassformer: Any, translator: Path) -> None:
    (run,) = json.loads(glassformer("report", translator, "--json").out)["runs"]
    titles = [each["title"] for each in run["chapters"]]
    assert titles[:2] == ["Worst translations", "Best translations"]
    assert {"Length ratio", "Alignment"} <= set(titles)


def test_the_page_is_written_into_the_run_and_is_the_one_of_the_training(
    glassformer: Any, run: Any
) -> None:
    page = run.folder / "report.html"
    before = page.read_bytes()
    assert "Report: runs/gpt-notes/report.html. Try: " in run.training.out.splitlines()[-1]
    page.unlink()
    result = glassformer("report", run.folder)
    assert (result.code, result.out) == (0, f"wrote {page}\n")
    assert page.read_bytes() == before


def test_several_runs_need_a_file(glassformer: Any, shelf: Path, tmp_path: Path) -> None:
    runs = [shelf / "runs" / name for name in ("reviews", "encoder")]
    result = glassformer("report", *runs)
    assert (result.code, result.out) == (2, "")
    assert "pass --out FILE" in result.error
    assert glassformer("report", *runs, "--out", "both.html").code == 0
    assert "2 runs" not in (tmp_path / "both.html").read_text()  # the script says so
    found = json.loads(glassformer("report", *runs, "--json").out)
    assert [each["title"] for each in found["together"]][:1] == ["Scores"]


def test_what_is_no_run_is_an_error(glassformer: Any, tmp_path: Path) -> None:
    result = glassformer("report", tmp_path)
    assert result.code == 1
    assert "contains no run" in result.error
    assert "must end in .html or .json" in glassformer("report", tmp_path, "--out", "a.pdf").error
    assert list(tmp_path.iterdir()) == []


# --- evaluate --errors ---


def test_the_worst_mistakes_of_a_classifier_come_with_their_probability(
    glassformer: Any, shelf: Path, tmp_path: Path
) -> None:
    rows = ["review,sentiment", "good film,bad", "good good good,bad", "bad film,bad"]
    (tmp_path / "wrong.csv").write_text("\n".join(rows) + "\n")
    words = ("evaluate", shelf / "runs/reviews", "--data", "wrong.csv", "--errors", "1")
    found = json.loads(glassformer(*words, "--json").out)
    (error,) = found["errors"]
    assert (error["label"], error["predicted"]) == ("bad", "good")
    assert error["probability"] > 0.5
    assert error["source"].startswith("wrong.csv:")
    assert found["confusion_matrix"] == {"bad": {"bad": 1, "good": 2}}
    assert "predicted good, labelled bad" in glassformer(*words).out
    assert "errors" not in json.loads(glassformer(*words[:-2], "--json").out)


def test_sentences_with_wrong_tags_are_shown(glassformer: Any, shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.conll").write_text("the\tB-NAME\nfox\tO\n\nAda\tB-NAME\n\n")
    words = ("evaluate", shelf / "runs/names", "--data", "wrong.conll", "--errors", "5")
    errors = json.loads(glassformer(*words, "--json").out)["errors"]
    assert all(each["tags"] != each["predicted"] for each in errors)
    assert all(len(each["scores"]) == len(each["words"]) for each in errors)
    assert ["the", "fox"] in [each["words"] for each in errors]
    assert "tagged B-NAME]" in glassformer(*words).out


def test_the_worst_translations_come_first(
    glassformer: Any, translator: Path, tmp_path: Path
) -> None:
    (tmp_path / "t.tsv").write_text("one two\tONE TWO\none\tsomething else\n")
    words = ("evaluate", translator, "--data", "t.tsv", "--errors", "5")
    errors = json.loads(glassformer(*words, "--json").out)["errors"]
    assert errors[0]["reference"] == "something else"
    assert errors[0]["chrf"] < 50
    assert [each["chrf"] for each in errors] == sorted(each["chrf"] for each in errors)
    assert "reference:   something else" in glassformer(*words).out


def test_a_model_without_errors_to_list_refuses_the_option(glassformer: Any, shelf: Path) -> None:
    result = glassformer("evaluate", shelf / "runs/gpt", "--data", "x.txt", "--errors", "3")
    assert result.code == 2
    assert "does not accept --errors" in result.error


def test_a_copied_run_has_the_same_report(glassformer: Any, run: Any, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "another-name")
    (tmp_path / "another-name" / "report.html").unlink()
    assert glassformer("report", "another-name").code == 0
    copied = (tmp_path / "another-name" / "report.html").read_bytes()
    assert copied == (run.folder / "report.html").read_bytes()
