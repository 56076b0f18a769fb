"""Labels of which one is rare: accuracy is high if it is never found, so it does not come first."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from commands import WORDS, Result, in_this_process

NEVER = "1 of 2 labels is never found: spam (0 of "
OPTION = "--set objective.class_weights=true"


def rows(number: int, seed: int) -> str:
    """One of forty is spam, which its words do not show."""
    draw = random.Random(seed)
    lines = [
        f"{' '.join(draw.choices(WORDS, k=5))} {seed}{n},{'ham' if n % 40 else 'spam'}"
        for n in range(number)
    ]
    return "\n".join(["text,label", *lines, ""])


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("post")
    (home / "mail.csv").write_text(rows(400, 1))
    (home / "test.csv").write_text(rows(200, 2))
    return home


@pytest.fixture(scope="module")
def training(post: Path) -> Result:
    words = ["train", "bag", "--data", "mail.csv", "--test-data", "test.csv", "--max-steps", "30"]
    words += ["--out", "mail", "--set", "training.precision=float32"]
    return in_this_process(*words, "--set", "training.num_threads=1", cwd=post)


def test_training_leads_with_macro_f1_and_names_the_option(post: Path, training: Result) -> None:
    assert training.code == 0, training.err
    assert "note: the labels are uneven: ham (351), spam (9)" in training.err
    assert f"pass {OPTION}" in training.err
    assert "val macro F1 0." in training.err
    assert training.out.startswith("mail: validation macro F1 0.")
    assert NEVER in training.out
    assert OPTION in training.out
    assert "Test: macro F1 0." in training.out
    card = (post / "mail" / "README.md").read_text()
    assert "| held out | macro F1 0." in card
    assert "never finds spam" in card


def test_evaluating_and_comparing_say_that_the_rare_label_is_never_found(
    post: Path, training: Result
) -> None:
    result = in_this_process("evaluate", "mail", "--data", "test.csv", cwd=post)
    assert result.out.startswith("macro F1 0.4")
    assert "never finds spam  accuracy 0.9750" in result.out
    assert f"note: {NEVER}5 examples)" in result.err
    assert OPTION in result.err
    result = in_this_process("compare", "mail", "--data", "test.csv", "--no-baseline", cwd=post)
    head, line = result.out.splitlines()
    assert head.split()[:4] == ["model", "parameters", "macro", "F1"]
    low, _, high = line.split()[3:6]
    score = float(line.split()[2])
    assert score < 0.5
    # None of five was found; the model may still recognise up to four of ten.
    assert float(low) <= score < 0.6 < float(high) < 0.8
    assert NEVER in result.err


def test_the_report_leads_with_macro_f1_and_has_the_note(post: Path, training: Result) -> None:
    result = in_this_process("report", "mail", "--json", cwd=post)
    (run,) = json.loads(result.out)["runs"]
    assert run["measure"] == "macro_f1"
    assert [note[: len(NEVER)] for note in run["notes"]] == [NEVER]


def test_an_option_that_was_used_is_not_suggested(post: Path, training: Result) -> None:
    words = ["train", "bag", "--data", "mail.csv", "--max-steps", "4", "--out", "weighed"]
    words += ["--set", "objective.class_weights=true", "--set", "training.num_threads=1"]
    done = in_this_process(*words, "--set", "training.precision=float32", cwd=post)
    found = in_this_process("evaluate", "weighed", "--data", "test.csv", cwd=post)
    for said in (done.out, done.err, found.out, found.err):
        assert OPTION not in said


def test_image_classifiers_do_the_same(glassformer: Any, tmp_path: Path) -> None:
    from PIL import Image

    draw = random.Random(0)
    for number in range(80):
        folder = tmp_path / "photos" / ("common" if number % 20 else "rare")
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.frombytes("L", (8, 8), draw.randbytes(64))
        image.save(folder / f"{number}.png")
    words = ["train", "vit", "--data", "photos", "--max-steps", "2", "--out", "vit"]
    words += ["--set", "model.d_model=16", "--set", "model.num_layers=1", "--set"]
    words += ["model.num_heads=2", "--set", "training.num_threads=1"]
    result = glassformer(*words, "--set", "training.precision=float32")
    assert result.code == 0, result.err
    assert "note: the labels are uneven: common (" in result.err
    assert result.out.startswith("vit: validation macro F1 ")
    result = glassformer("evaluate", "vit", "--data", "photos")
    assert result.out.startswith("macro F1 ")
