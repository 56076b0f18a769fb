"""What transformers computes from an exported folder. It runs in a process of its own, if it is
installed: the package never imports it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.formats.exporting import Probe

SECONDS = 600


def logits_in_transformers(
    folder: Path,
    architecture: str,
    probe: Probe,
    text: str | None = None,
    ids: Sequence[int] = (),
    **more: str,
) -> tuple[str, Tensor] | None:
    """Its name with its version, and its logits; None: it is not installed. `text` must be read as
    `ids`; `more` are further arguments of its from_pretrained."""
    if find_spec("transformers") is None:
        return None
    with TemporaryDirectory() as scratch:
        path = Path(scratch) / "inputs.safetensors"
        save_file(probe.inputs, path)
        arguments = [str(folder), architecture, str(path), json.dumps(text), json.dumps(more)]
        answer = _answer(arguments, folder)
        logits = load_file(f"{path}.logits")["logits"]
    if answer["missing"]:
        raise GlassformerError(
            f"transformers misses {', '.join(answer['missing'][:3])} in {folder}."
        )
    if text is not None and answer["ids"] != [*ids]:
        raise GlassformerError(
            f"transformers reads a text with the tokenizer of {folder} as other tokens than "
            "glassformer does."
        )
    return f"transformers {answer['version']}", logits


def _answer(arguments: list[str], folder: Path) -> dict[str, Any]:
    program = resources.files(__package__) / "transformers_check.py.txt"
    command = [sys.executable, "-c", program.read_text(encoding="utf-8"), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise GlassformerError(
            f"transformers did not finish within {SECONDS} seconds when it loaded {folder} to "
            "compare. Nothing was written. Try again when the machine is less busy."
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        raise GlassformerError(f"transformers cannot load {folder}: {last}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer
