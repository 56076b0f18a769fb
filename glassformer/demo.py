"""The demo: train on the text that comes with Python, watch it learn, let it write."""

import json
import math
import textwrap
from pathlib import Path
from pydoc_data.topics import topics
from typing import TextIO

from glassformer.predict import load
from glassformer.training import fit
from glassformer.training.recipe import make_recipe
from glassformer.training.run_folder import RunFolder

PROMPT = "The class statement"


def run_demo(folder: Path, max_steps: int, stream: TextIO) -> int:
    """Train, evaluate, generate, and name the next commands. Returns the exit code."""

    def say(text: str = "") -> None:
        print(text, file=stream, flush=True)

    RunFolder(folder).clear()
    say("A GPT learns to write like Python's reference manual, character by character,")
    say("starting from nothing. Each sample below continues a topic it has never seen.\n")
    recipe = make_recipe(
        {
            "model": {"name": "gpt", "preset": "modern-xs"},
            "data": {"paths": [str(_write_topics(folder))]},
            "tokenizer": {"kind": "char"},
            "training": {
                "max_steps": max_steps,
                "per_device_train_batch_size": 16,
                "eval_steps": max(1, max_steps // 8),
            },
        }
    )
    outcome = fit.train(recipe, folder, stream)
    if outcome.stopped_by is not None:
        say(outcome.summary())
        return outcome.exit_code
    model = load(folder)
    guess = math.log(model.tokenizer.vocab_size)
    say(f"\nheld-out loss {outcome.best_loss:.3f} per character (blind guessing: {guess:.3f})")
    say(f"\nThe model continues «{PROMPT}»:\n")
    text = PROMPT + model.generate(PROMPT, max_new_tokens=400, temperature=0.6, seed=1).text
    say(textwrap.indent(text, "  "))
    say("\nNext, try:")
    say(f'  .venv/bin/glassformer generate {folder} "An exception" --temperature 0.8')
    say(f'  .venv/bin/glassformer generate {folder} --top 10 "The import stat"')
    say("  .venv/bin/glassformer train gpt --data YOUR_TEXT.txt")
    return 0


def _write_topics(folder: Path) -> Path:
    """Python's reference topics, each a document of its own, beside the run."""
    path = folder.with_name(f"{folder.name}-data") / "python-topics.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"text": text}) for text in topics.values())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
