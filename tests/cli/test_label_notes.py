"""What the verbs of labels say on stderr of data that they took in another way than it stands."""

import json
from pathlib import Path
from typing import Any

import pytest

LONG = "the fox Ada Lovelace jumps over a lazy dog " * 8


@pytest.mark.parametrize("by", ["an argument", "stdin", "a file"])
def test_sentences_that_are_read_in_pieces_are_counted(
    glassformer: Any, shelf: Path, tmp_path: Path, by: str
) -> None:
    if by == "an argument":
        words, stdin, counts = [LONG], "", "1 of 1 sentence"
    elif by == "stdin":
        words, stdin, counts = [], f"the fox\n{LONG}\n\n{LONG}\n", "2 of 4 sentences"
    else:
        (tmp_path / "a.txt").write_text(f"{LONG}\nthe fox\n")
        words, stdin, counts = ["--data", "a.txt"], "", "1 of 2 sentences"
    result = glassformer("tag", shelf / "runs/names", *words, stdin=stdin)
    assert (result.code, result.err.count("\n")) == (0, 1)
    assert result.err.startswith("note: ")
    for part in (counts, "context of 32 tokens", "read in pieces"):
        assert part in result.err


def test_sentences_that_fit_are_not_remarked_on(glassformer: Any, shelf: Path) -> None:
    assert glassformer("tag", shelf / "runs/names", "the fox").err == ""


def test_an_evaluation_says_how_many_sentences_it_read_in_pieces(
    glassformer: Any, shelf: Path, tmp_path: Path
) -> None:
    long = "".join(f"{word}\tO\n" for word in LONG.split())
    (tmp_path / "x.conll").write_text(f"{long}\nthe\tO\nfox\tO\n")
    result = glassformer("evaluate", shelf / "runs/names", "--data", "x.conll")
    assert "1 of 2 sentences" in result.err
    assert "read in pieces" in result.err


# --- columns ---

LABELS = ("good", "bad")
SERIES = [(n, t) for n in range(20) for t in range(3)]
TABLES = {
    "a.csv": ["title,review,id,sentiment", *(f"t,text {n},{n},{LABELS[n % 2]}" for n in range(40))],
    "b.csv": ["text,label", *(f"text {n},{LABELS[n % 2]}" for n in range(40))],
    "c.jsonl": [json.dumps({"words": ["Ada", f"w{n}"], "tags": ["B", "O"]}) for n in range(40)],
    "d.csv": ["id,step,x,y,label", *(f"{n},{t},{n},{t},{LABELS[n % 2]}" for n, t in SERIES)],
    "e.tsv": [f"text {n}\t{LABELS[n % 2]}" for n in range(40)],
    "f.csv": ["title,body", *("t," + f"text {n} " * 40 for n in range(40))],
    "g.txt": ["the quick brown fox jumps over a lazy dog"] * 200,
}


@pytest.mark.parametrize(
    ("model", "name", "said"),
    [
        ("bag", "a.csv", "columns: text review; label sentiment; not used: title, id"),
        ("bag", "b.csv", "columns: text; label"),
        ("tagger", "c.jsonl", "columns: words; tags"),
        ("rnn-classifier", "d.csv", "columns: sequence id; step; values x, y; label"),
        ("bag", "e.tsv", None),
        ("gpt", "f.csv", "columns: text body; not used: title"),
        ("gpt", "g.txt", None),
    ],
)
def test_what_the_columns_of_a_table_are_taken_for_is_said(
    glassformer: Any, tmp_path: Path, model: str, name: str, said: str | None
) -> None:
    (tmp_path / name).write_text("\n".join(TABLES[name]) + "\n")
    words = ["train", model, "--data", name, "--set", "training.num_threads=1"]
    words += ["--set", "training.precision=float32", "--set", "model.d_model=16"]
    words += ["--set", "model.context_length=16"] if model != "bag" else []
    result = glassformer(*words, "--dry-run")
    assert result.code == 0, result.err
    found = [line for line in result.out.splitlines() if line.startswith("columns")]
    assert found == ([] if said is None else [said])
    if model == "bag" and said:
        trained = glassformer(*words, "--max-steps", 2, "--out", "r").err.splitlines()
        assert trained[0].startswith("data: ")
        assert trained[1] == said


def test_tables_of_different_columns_are_told_apart(glassformer: Any, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("\n".join(TABLES[name]) + "\n")
    words = ("train", "bag", "--data", "a.csv", "--validation-data", "b.csv", "--dry-run")
    lines = glassformer(*words).out.splitlines()
    assert "columns of a.csv: text review; label sentiment; not used: title, id" in lines
    assert "columns of b.csv: text; label" in lines
