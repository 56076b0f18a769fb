"""Every verb says the same of a model that is not there: exit code 1, one sentence, nothing on
stdout. A wrong command is exit code 2."""

from pathlib import Path
from typing import Any

import pytest
import typer

from glassformer.cli.main import app

WITHOUT_MODEL = {"train", "corpus", "plan", "data", "doctor", "demo", "playground", "course"}
RUNS = {"report", "verify"}
WORDS: dict[str, tuple[str, ...]] = {
    "generate": ("Once",),
    "chat": (),
    "complete": ("photo.png", "--out", "out.png"),
    "score": ("a text",),
    "translate": ("a text",),
    "classify": ("a text",),
    "tag": ("a text",),
    "fill": ("a [MASK]",),
    "embed": ("a text",),
    "caption": ("photo.png",),
    "neighbours": ("word",),
    "inspect": ("a text",),
    "explore": ("--port", "0"),
    "report": (),
    "evaluate": ("--data", "notes.txt"),
    "compare": ("elsewhere", "--data", "notes.txt"),
    "export": ("--out", "exported"),
    "verify": (),
    "finetune": ("--task", "classify", "--data", "notes.txt"),
    "import": (),
}


def test_every_verb_is_tried() -> None:
    group: Any = typer.main.get_command(app)
    assert set(group.commands) == set(WORDS) | WITHOUT_MODEL


@pytest.mark.parametrize("verb", WORDS)
@pytest.mark.parametrize("model", ["nowhere", "runs/nowhere"])
def test_a_missing_model_is_one_sentence(
    glassformer: Any, tmp_path: Any, verb: str, model: str
) -> None:
    (tmp_path / "notes.txt").write_text("a b c\n")
    before = sorted(tmp_path.rglob("*"))
    result = glassformer(verb, model, *WORDS[verb])
    assert (result.code, result.out) == (1, "")
    assert result.error.startswith(f"{model} does not exist.")
    cures = ("a run",) if verb in RUNS else ("Hugging Face", "GGUF", "hub")
    for word in cures:
        assert word in result.error
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("verb", WORDS)
def test_an_empty_folder_is_one_sentence(glassformer: Any, tmp_path: Any, verb: str) -> None:
    (tmp_path / "notes.txt").write_text("a b c\n")
    for name in ("empty", "elsewhere"):
        (tmp_path / name).mkdir()
    result = glassformer(verb, "empty", *WORDS[verb])
    assert (result.code, result.out) == (1, "")
    assert result.error.startswith("empty ")


@pytest.mark.parametrize("verb", [*WORDS, *sorted(WITHOUT_MODEL - {"corpus", "course"})])
def test_an_unknown_option_is_wrong_usage(glassformer: Any, verb: str) -> None:
    result = glassformer(verb, "nowhere", *WORDS.get(verb, ()), "--no-such-option")
    assert (result.code, result.out) == (2, "")
    assert "--no-such-option" in result.error


@pytest.mark.parametrize("verb", [*WORDS, "train"])
def test_a_missing_argument_is_wrong_usage(glassformer: Any, verb: str) -> None:
    assert (result := glassformer(verb)).code == 2
    assert result.error


def test_a_file_in_the_place_of_the_model_is_refused_with_the_order(
    glassformer: Any, tmp_path: Path
) -> None:
    (tmp_path / "swapped.csv").write_text("text,label\na fox,yes\n")
    result = glassformer("classify", "swapped.csv", "a fox")
    assert result.code == 1
    assert result.error.endswith("If it is data, pass a model before it.")
