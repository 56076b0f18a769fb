"""--test-data: the best model is judged once, at the end, and nothing is chosen by it."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoint.model_folder import WEIGHTS
from glassformer.errors import GlassformerError

STEPS = ["--max-steps", "12", "--set", "training.eval_steps=6", "--set", "training.save_steps=6"]
STEPS += ["--set", "training.learning_rate=0.01"]
SMALL = ["--set", "training.num_threads=1", "--set", "training.precision=float32"]
WORDS = ("the", "film", "was", "a", "story", "of", "some", "people")


def texts(
    path: Path, seed: int, count: int = 60, labels: tuple[str, str] = ("good", "bad")
) -> Path:
    draw = random.Random(seed)
    rows = [
        f"{' '.join(draw.choices(WORDS, k=5))} {labels[n % 2]},{labels[n % 2]}"
        for n in range(count)
    ]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def sentences(path: Path, seed: int) -> Path:
    draw = random.Random(seed)
    lines = []
    for _ in range(40):
        lines += [f"{word}\tO" for word in draw.choices(WORDS, k=3)] + ["Ada\tB-NAME", ""]
    path.write_text("\n".join(lines) + "\n")
    return path


def walks(path: Path, seed: int) -> Path:
    draw = random.Random(seed)
    lines = ["id,step,x,label"]
    for number in range(40):
        label, size = (("walk", 1), ("run", 9))[number % 2]
        steps = range(draw.randint(3, 6))
        lines += [f"{number},{step},{size + draw.random()},{label}" for step in steps]
    path.write_text("\n".join(lines) + "\n")
    return path


DATA: dict[str, Any] = {"bag": texts, "tagger": sentences, "rnn-classifier": walks}


def model_options(model: str) -> list[str]:
    return [] if model == "bag" else ["--set", "model.d_model=16", "--layers", "1"]


@pytest.mark.parametrize("model", DATA)
def test_the_test_is_what_evaluate_says_of_the_best_model(
    glassformer: Any, tmp_path: Path, model: str
) -> None:
    ending = "conll" if model == "tagger" else "csv"
    data, test = (DATA[model](tmp_path / f"{seed}.{ending}", seed) for seed in (1, 2))
    words = ["train", model, "--data", data, "--out", tmp_path / "r", *model_options(model)]
    words += [*STEPS, *SMALL, "--test-data", test]
    trained = glassformer(*words, "--json")
    assert trained.code == 0, trained.err
    assert re.search(r"test set.*: 40", trained.err) or model == "bag"
    found = json.loads(glassformer("evaluate", tmp_path / "r", "--data", test, "--json").out)
    assert json.loads(trained.out)["test"] == found
    headline = json.loads((tmp_path / "r/test.json").read_text())["headline"]
    assert f"accuracy {found['accuracy']:.4f}" in headline
    assert f"| test | {headline}, in {test.name} |" in (tmp_path / "r/README.md").read_text()
    test.unlink()  # a run has all that it needs
    again = glassformer("train", "--resume", "--out", tmp_path / "r")
    assert f"Test: {headline}. " in again.out
    assert json.loads(glassformer(*words, "--json", "--resume").out)["test"] == found


def test_test_data_changes_no_model(glassformer: Any, tmp_path: Path) -> None:
    data, test = texts(tmp_path / "a.csv", 1), texts(tmp_path / "b.csv", 2)
    words = ["train", "bag", "--data", data, *STEPS, *SMALL]
    with_test = glassformer(*words, "--test-data", test, "--out", tmp_path / "with", "--json")
    without = glassformer(*words, "--out", tmp_path / "without", "--json")
    assert json.loads(with_test.out).keys() - json.loads(without.out).keys() == {"test"}
    one, other = (tmp_path / name / WEIGHTS for name in ("with", "without"))
    assert one.read_bytes() == other.read_bytes()


def test_a_test_that_was_cut_off_is_done_when_the_run_is_resumed(
    glassformer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, test = texts(tmp_path / "a.csv", 1), texts(tmp_path / "b.csv", 2)
    words = ["train", "bag", "--data", data, "--test-data", test, "--out", tmp_path / "r"]

    def fails(*given: Any) -> None:
        raise GlassformerError("the power is gone.")

    with monkeypatch.context() as patch:
        patch.setattr("glassformer.training.report._evaluate", fails)
        assert glassformer(*words, *STEPS, *SMALL).error == "the power is gone."
    assert not (tmp_path / "r/test.json").exists()
    assert "Test: accuracy" in glassformer("train", "--resume", "--out", tmp_path / "r").out
    assert (tmp_path / "r/README.md").read_text().count("| test |") == 1
    (tmp_path / "r/test.json").write_text("{")  # damaged: found again
    assert "Test: accuracy" in glassformer("train", "--resume", "--out", tmp_path / "r").out
    assert (tmp_path / "r/README.md").read_text().count("| test |") == 1


def test_another_best_model_is_judged_anew(glassformer: Any, tmp_path: Path) -> None:
    data, test = texts(tmp_path / "a.csv", 1), texts(tmp_path / "b.csv", 2)
    words = ["train", "bag", "--data", data, "--test-data", test, "--out", tmp_path / "r", *SMALL]
    assert glassformer(*words, *STEPS).code == 0
    before = json.loads((tmp_path / "r/test.json").read_text())
    longer = ["--max-steps", "60", "--resume", "--force"]
    assert "Test: accuracy" in glassformer("train", "--out", tmp_path / "r", *longer).out
    after = json.loads((tmp_path / "r/test.json").read_text())
    assert before["model"] != after["model"]
    assert before["scores"]["loss"] > after["scores"]["loss"]


def test_other_test_data_is_another_run(glassformer: Any, tmp_path: Path) -> None:
    data, test = texts(tmp_path / "a.csv", 1), texts(tmp_path / "b.csv", 2)
    words = ["train", "bag", "--data", data, "--out", tmp_path / "r", *STEPS, *SMALL]
    assert glassformer(*words).code == 0
    refused = glassformer(*words, "--test-data", test, "--resume")
    assert "a different recipe: --test-data was []" in refused.error


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("text,label\na,odd\n", "has no label in common with "),
        ("", "is empty"),
        ('text,label\na,"[""good"", ""bad""]"\n', "b.csv:2: 2 labels, but each text in "),
    ],
)
def test_bad_test_data_is_told_before_the_training(
    glassformer: Any, tmp_path: Path, content: str, problem: str
) -> None:
    (tmp_path / "b.csv").write_text(content)
    words = ["train", "bag", "--data", texts(tmp_path / "a.csv", 1), "--out", tmp_path / "r"]
    result = glassformer(*words, "--test-data", tmp_path / "b.csv")
    assert (result.code, problem in result.error) == (1, True)
    assert not (tmp_path / "r").exists()


def test_a_model_without_labels_has_no_test(glassformer: Any, tmp_path: Path) -> None:
    data = texts(tmp_path / "a.csv", 1)
    result = glassformer("train", "gpt", "--data", data, "--test-data", data)
    assert result.code == 2
    assert "--test-data does not apply to gpt. It is an option of: bag" in result.error
