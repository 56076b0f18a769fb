"""What the verbs of labels say on stderr of data that they took in another way than it stands."""

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
    said = f"too long for the model's context of 32 tokens, and read in pieces: {counts}"
    assert (result.code, result.err) == (0, f"note: {said}\n")


def test_sentences_that_fit_are_not_remarked_on(glassformer: Any, shelf: Path) -> None:
    assert glassformer("tag", shelf / "runs/names", "the fox").err == ""


def test_an_evaluation_says_how_many_sentences_it_read_in_pieces(
    glassformer: Any, shelf: Path, tmp_path: Path
) -> None:
    long = "".join(f"{word}\tO\n" for word in LONG.split())
    (tmp_path / "x.conll").write_text(f"{long}\nthe\tO\nfox\tO\n")
    result = glassformer("evaluate", shelf / "runs/names", "--data", "x.conll")
    assert "and read in pieces: 1 of 2 sentences" in result.err
