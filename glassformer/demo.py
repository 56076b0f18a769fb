"""The demo: train on the text that comes with Python, watch it learn, let it write."""

import json
import math
import textwrap
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, TextIO

from glassformer.errors import GlassformerError
from glassformer.predict import load_for
from glassformer.predict.language import LanguagePredictor
from glassformer.training.begin import resume, train
from glassformer.training.metrics import best_loss
from glassformer.training.outcome import Outcome
from glassformer.training.recipe import Recipe, make_recipe
from glassformer.training.run_folder import RunFolder
from glassformer.wording import command

PROMPT = "The class statement"
STEPS = 600


def train_demo(folder: Path, max_steps: int | None, force: bool, stream: TextIO) -> Outcome | None:
    """Train on Python's reference topics, or go on with a demo that was stopped. None if there is
    a finished one already."""
    run, data = RunFolder(folder), folder.with_name(f"{folder.name}-data") / "python-topics.jsonl"
    if run.exists and run.recipe().data.names != (str(data),):
        raise GlassformerError(f"{folder} exists and holds another run. Say another --out.")
    _say("A GPT learns to write like Python's reference manual, character by character,", stream)
    _say("starting from nothing. Each sample below continues a topic it has never seen.\n", stream)
    if run.exists and not force:
        if max_steps not in (None, planned := run.recipe().training.max_steps):
            raise GlassformerError(
                f"{folder} was begun with {planned:,} steps. Leave out --max-steps to go on with "
                "it, or say --force to train it again."
            )
        if run.is_finished():
            _say(f"{folder} holds a finished one; --force trains it again.", stream)
            return None
        return resume(run, stream)
    _write_topics(data)
    return train(_recipe(data, max_steps or STEPS), run, stream)


def show_demo(folder: Path, stream: TextIO) -> dict[str, Any]:
    """Let the model write, name the next commands; the same as values for a program."""
    model = load_for(folder, LanguagePredictor, "generate")
    loss = best_loss(folder)
    guess = math.log(model.tokenizer.vocab_size)
    written = model.generate(PROMPT, max_new_tokens=400, temperature=0.6, seed=1)
    _say(f"\nheld-out loss {loss:.3f} per character", stream)
    _say(f"(blind guessing: {guess:.3f})", stream)
    _say(f"\nThe model continues «{PROMPT}»:\n", stream)
    _say(textwrap.indent(PROMPT + written.text, "  "), stream)
    _say("\nNext, try:", stream)
    for words in (
        ("generate", folder, "An exception", "--temperature", "0.8"),
        ("generate", folder, "--top", "10", "The import stat"),
        ("train", "gpt", "--data", "YOUR_TEXT.txt"),
    ):
        _say(f"  {command(*words)}", stream)
    return {"run": str(folder), "val_loss": loss} | written.as_json()


def _recipe(data: Path, max_steps: int) -> Recipe:
    return make_recipe(
        {
            "model": {"name": "gpt", "preset": "modern-xs"},
            "data": {"paths": [str(data)]},
            "tokenizer": {"kind": "char"},
            "training": {
                "max_steps": max_steps,
                "per_device_train_batch_size": 16,
                "eval_steps": max(1, max_steps // 8),
            },
        }
    )


def _write_topics(path: Path) -> None:
    """Python's reference topics, each a document of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"text": text}) for text in topics.values())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _say(text: str, stream: TextIO) -> None:
    print(text, file=stream, flush=True)
