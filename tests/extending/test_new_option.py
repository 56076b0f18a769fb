"""An option of `train` is declared once: the rest of the program reads the declaration."""

import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import glassformer

BEFORE = "class Training(TypedDict, total=False):\n"
NEW = """    max_grad_norm: Annotated[float, _training("Largest norm (default: 1.0).")]\n"""
PROGRAM = """
import inspect, json
import glassformer
from glassformer.cli import train
from glassformer.sklearn import TextClassifier
from glassformer.training.command import request
from glassformer.training.preparation import make_recipe

options = {"data": "notes.txt", "max_grad_norm": 0.5}
recipe = make_recipe(request({"model": {"name": "bag"}}, options).flags)
verbs = (glassformer.train, glassformer.finetune, train.train, train.finetune, TextClassifier)
names = [verb.__name__ for verb in verbs if "max_grad_norm" in inspect.signature(verb).parameters]
print(json.dumps({"value": recipe.training.max_grad_norm, "verbs": names}))
"""


def test_an_option_is_one_line_in_one_file(tmp_path: Path) -> None:
    """A copy of the program, in which a key of the recipe gets an option."""
    package = Path(glassformer.__file__).parent
    copytree(package, tmp_path / "glassformer", ignore=lambda _, names: {"__pycache__"} & {*names})
    file = tmp_path / "glassformer" / "options.py"
    lines = file.read_text()
    assert lines.count(BEFORE) == 1
    assert "max_grad_norm" not in lines
    file.write_text(lines.replace(BEFORE, BEFORE + NEW))

    def python(*words: str) -> str:
        return subprocess.run(
            [sys.executable, *words],
            capture_output=True, text=True, check=True, cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        ).stdout  # fmt: skip

    for verb in ("train", "finetune"):
        shown = python("-m", "glassformer", verb, "--help")
        assert "--max-grad-norm X" in shown
        assert "Largest norm (default: 1.0)." in shown
    found = json.loads(python("-c", PROGRAM))
    assert found["value"] == 0.5
    assert found["verbs"] == ["train", "finetune", "train", "finetune", "TextClassifier"]
