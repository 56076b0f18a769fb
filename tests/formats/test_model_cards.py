"""The card of an exported or imported model: its programs and commands run as they are printed."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from exported_models import CLS, MODERN, a_gpt, a_model, tokenizer

from glassformer.api import export_model
from glassformer.formats.exporting import card
from glassformer.formats.open_model import import_model
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizers import BERT_TOKENS

PUBLISHED = """---
license: mit
library_name: other-tool
tags:
- poetry
---
# A poet

## Training

```python
# a comment
```
"""


def card_of(folder: Any) -> str:
    return (Path(folder) / "README.md").read_text()


def run_card(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = re.search(r"```python\n(.*?)```", card_of(folder), re.DOTALL)
    assert program
    monkeypatch.chdir(folder)
    exec(compile(program[1], "README.md", "exec"), {})


def command(text: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith("glassformer "))
    return shlex.split(line)[1:]


@pytest.mark.parametrize("config", [{}, MODERN])
def test_the_card_of_a_gpt_runs_in_transformers(
    tmp_path: Path, config: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = a_gpt(tmp_path / "gpt", **config)
    run_card(export_model(path, "hf", tmp_path / "out"), monkeypatch)
    assert capsys.readouterr().out.startswith("Once upon a time")


@pytest.mark.parametrize(
    ("name", "config", "printed"),
    [("bert", {}, r".+"), ("classifier", CLS, r"bad 0\.\d+\ngood 0\.\d+")],
)
def test_the_card_of_an_encoder_runs_in_transformers(
    tmp_path: Path,
    name: str,
    config: Any,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    kind = MaskedTextPreprocessing if name == "bert" else TextPreprocessing
    preprocessing = kind(tokenizer=tokenizer("wordpiece", *BERT_TOKENS))
    path = a_model(tmp_path / name, name, preprocessing, **config)
    run_card(export_model(path, "hf", tmp_path / "out"), monkeypatch)
    assert re.match(printed, capsys.readouterr().out)
    is_cut = "glassformer reads the beginning and the end" in card_of(tmp_path / "out")
    assert is_cut == (name == "classifier")


def test_the_command_of_an_imported_model_is_quoted(tmp_path: Path) -> None:
    hub = export_model(a_gpt(tmp_path / "gpt"), "hf", tmp_path / "hub")
    imported = import_model(hub.folder, tmp_path / "imported")
    assert command(card_of(imported.folder)) == ["generate", ".", "Once upon a time"]


def test_a_foreign_model_in_our_format_has_a_whole_card(tmp_path: Path) -> None:
    hub = export_model(a_gpt(tmp_path / "gpt"), "hf", tmp_path / "hub").folder
    (hub / "README.md").unlink()
    out = export_model(hub, "safetensors", tmp_path / "out", quantize="int8")
    text = card_of(out.folder)
    assert "\n# gpt\n" in text
    assert "Source: `hub`" in text
    assert "\n## Quantisation\n" in text
    assert command(text)[:2] == ["generate", "."]


def test_a_card_within_a_card_keeps_its_metadata_but_not_its_commands() -> None:
    rest = f"{PUBLISHED}\n```\nglassformer generate . Hello\n```\n"
    text = card("gpt", "A gpt", "Usage.", rest, library_name="transformers")
    _, head, body = text.split("---\n", 2)
    assert yaml.safe_load(head) == {
        "license": "mit",
        "library_name": "transformers",
        "tags": ["poetry", "glassformer"],
    }
    assert re.findall("^#+ .*", body, re.MULTILINE) == [
        *("# gpt", "## A poet", "### Training", "# a comment")
    ]
    assert "glassformer generate" not in body


@pytest.mark.parametrize("rest", ["---\n: [\n---\ntext", "---\n- a\n---\ntext", "---\ntext", ""])
def test_metadata_that_cannot_be_read_stay_text(rest: str) -> None:
    text = card("gpt", "A gpt", "Usage.", rest)
    assert text.startswith("---\ntags:\n- glassformer\n---\n\n# gpt\n")
    assert text.endswith("text\n" if rest else "Usage.\n")
