"""train word-vectors, neighbours and import, as a user runs them."""

import json
from pathlib import Path
from typing import Any

import pytest

SENTENCE = "the quick brown fox jumps"
GLOVE = "the 1 0 0.5\nfox 0.5 1 0\ndog 0.4 1 0.1\nquick 0 0 1\n"
QUICK = ["--max-steps", "10", "--set", "model.d_model=8", "--set", "training.precision=float32"]


@pytest.fixture
def notes(tmp_path: Path, text: str) -> Path:
    (tmp_path / "notes.txt").write_text(text)
    return tmp_path / "notes.txt"


def test_word_vectors_are_trained_like_any_model(glassformer: Any, notes: Path) -> None:
    words = ("train", "word-vectors", "--data", "notes.txt", *QUICK)
    plan = glassformer(*words, "--dry-run")
    assert plan.code == 0, plan.err
    assert "word-vectors small" in plan.out
    assert not Path("runs").exists()
    result = glassformer(*words)
    assert result.code == 0, result.err
    assert "glassformer neighbours runs/word-vectors-notes " in result.out + result.err
    assert "neighbours . " in Path("runs/word-vectors-notes/README.md").read_text()
    assert "already finished" in glassformer(*words, "--resume").out
    assert glassformer("verify", "runs/word-vectors-notes").code == 0
    found = json.loads(
        glassformer("evaluate", "runs/word-vectors-notes", "--data", "notes.txt", "--json").out
    )
    assert found.keys() == {"loss", "accuracy", "num_pairs"}
    printed = glassformer("neighbours", "runs/word-vectors-notes", "fox", "--top", "2")
    assert printed.code == 0, printed.err
    assert printed.out.startswith('nearest to "fox" alone\n')
    assert len(printed.out.splitlines()) == 4


def test_neighbours_of_a_gpt_show_every_layer(glassformer: Any, shelf: Path) -> None:
    words = ("neighbours", shelf / "runs/gpt", "fox", "--context", "quick fox", "--json")
    found = json.loads(glassformer(*words).out)
    assert [step["name"] for step in found["steps"]][:3] == ["alone", "attention", "layer 1"]
    assert "with queries, keys and values" in glassformer(*words[:-1]).out


def test_imported_vectors_have_neighbours(glassformer: Any, tmp_path: Path) -> None:
    (tmp_path / "glove.3d.txt").write_text(GLOVE)
    result = glassformer("import", "glove.3d.txt")
    assert result.code == 0, result.err
    assert "runs/glove.3d: word-vectors, 4 words, 3 dimensions. Try: " in result.out
    assert "lower case" in result.err
    printed = glassformer("neighbours", "runs/glove.3d", "fox", "--context", "The quick fox!")
    assert "dog" in printed.out
    assert "/ 1.73" in printed.out
    again = glassformer("import", "glove.3d.txt", "--force", "--json")
    assert json.loads(again.out)["folder"] == "runs/glove.3d"
    assert "already contains a model" in glassformer("import", "glove.3d.txt").error
    assert "imported" in glassformer("evaluate", "runs/glove.3d", "--data", "glove.3d.txt").error


def test_mistakes_are_one_sentence(glassformer: Any, shelf: Path, tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text(GLOVE)
    glassformer("import", "glove.txt")
    unknown = glassformer("neighbours", "runs/glove", "foxx")
    assert (unknown.code, unknown.out) == (2, "")
    said = '"foxx" is not among the 4 words of this model. Did you mean fox?'
    assert unknown.error == said
    elsewhere = glassformer("neighbours", "runs/glove", "fox", "--context", "a dog")
    assert (elsewhere.code, elsewhere.error.startswith("the context does not contain")) == (2, True)
    other = glassformer("neighbours", shelf / "runs/reviews", "fox")
    said = "cannot show neighbours. This model supports classify, inspect and evaluate."
    assert (other.code, other.error) == (2, f"{shelf / 'runs/reviews'} {said}")
