"""A mistyped name of a model, a preset or a task is answered at once, with the one that was
probably meant: nothing heavy is imported before."""

from pathlib import Path
from typing import Any

import pytest
from test_help import modules_after

HEAVY = {"torch", "lightning", "numpy", "yaml", "tokenizers", "safetensors"}
MISTYPED = {
    ("train", "gtp"): 'there is no model "gtp". Did you mean gpt?',
    ("train", "gpt", "--preset", "nanno"): "Did you mean nano?",
    ("plan", "gtp"): "Did you mean gpt?",
    ("plan", "--preset", "nanno"): "Did you mean nano?",
    (
        "train",
        "--from",
        "runs/gpt-nots",
    ): "runs/gpt-nots does not exist. Did you mean runs/gpt-notes?",
    ("finetune", "runs/gpt-nots", "--task", "tag"): "Did you mean runs/gpt-notes?",
    ("finetune", "runs/gpt", "--task", "clasify"): "Did you mean classify?",
    ("classify", "gpt-note", "a text"): "Did you mean runs/gpt-notes?",
    ("compare", "runs/gpt", "runs/gpt-nots"): "Did you mean runs/gpt-notes?",
    ("explore", "runs/gpt-nots"): "Did you mean runs/gpt-notes?",
    ("report", "runs/gpt-nots"): "Did you mean runs/gpt-notes?",
    ("verify", "runs/gpt-nots"): "Did you mean runs/gpt-notes?",
}


@pytest.mark.parametrize("words", MISTYPED, ids=" ".join)
def test_a_mistyped_name_gets_a_suggestion_and_loads_nothing_heavy(
    glassformer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    for name in ("gpt", "gpt-notes"):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        for file in ("config.json", "recipe.yaml"):
            (folder / file).touch()
    data = () if words[0] in ("plan", "report", "verify", "explore") else ("--data", "notes.txt")
    result = glassformer(*words, *(() if words[0] == "classify" else data))
    assert result.out == ""
    assert MISTYPED[words] in result.error
    monkeypatch.chdir(tmp_path)
    loaded = modules_after(*words, *data)
    assert "typer" in loaded
    assert not loaded & HEAVY
