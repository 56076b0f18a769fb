"""The demo: train on text that comes with Python, then generate."""

import json
import math
import textwrap
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, TextIO

from glassformer.errors import GlassformerError
from glassformer.files import locked
from glassformer.inspect.views import draw
from glassformer.tasks import load_for
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.recipe import Recipe
from glassformer.training.preparation import make_recipe
from glassformer.training.progress import best_loss
from glassformer.training.report import Outcome
from glassformer.training.run import resume, train
from glassformer.training.run_folder import STORY, RunFolder
from glassformer.wording import command

PROMPT = "The class statement"
STEPS = 600
INTRODUCTION = """\
A GPT learns to write like Python's reference manual, character by character, from random weights.
Each sample below continues a topic that it was not trained on.
"""


def train_demo(folder: Path, max_steps: int | None, force: bool, stream: TextIO) -> Outcome | None:
    """Train on Python's reference manual, or continue a demo that was stopped. Returns None if the
    demo is already finished."""
    run, data = RunFolder(folder), folder.with_name(f"{folder.name}-data") / "python-topics.jsonl"
    with locked(folder):
        if run.exists and run.recipe().data_names != (str(data),):
            raise GlassformerError(f"{folder} already contains another run. Choose another --out.")
        _print(INTRODUCTION, stream)
        if force or not run.exists:
            _write_topics(data)
            return train(_recipe(data, max_steps or STEPS), run, stream)
        planned = run.recipe().training.max_steps
        if max_steps not in (None, planned):
            raise GlassformerError(
                f"{folder} was started with --max-steps {planned}. Leave it out to continue, "
                "or pass --force to start over."
            )
        if run.is_finished():
            _print(f"{folder} is already trained. Pass --force to train it again.", stream)
            return None
        return resume(run, stream)


def show_demo(folder: Path, stream: TextIO) -> dict[str, Any]:
    """Print the loss, a generated text and commands to try next; return the result."""
    model = load_for(folder, LanguagePredictor, "generate")
    loss, uniform = best_loss(folder), math.log(model.tokenizer.vocab_size)
    written = model.generate(PROMPT, max_new_tokens=400, temperature=0.6, seed=1)
    _print(f"\nvalidation loss {loss:.3f} per character (random guessing: {uniform:.3f})", stream)
    _print(f"\nThe model continues {PROMPT!r}:\n", stream)
    _print(textwrap.indent(PROMPT + written.text, "  "), stream)
    page = folder / STORY
    draw(model.inspect(PROMPT), page)
    _print(
        f"\nOpen {page} in a browser to look inside the model and to type texts of your own.",
        stream,
    )
    _print("\nNext, try:", stream)
    _print(f"  {command('generate', folder, 'An exception', '--temperature', '0.8')}", stream)
    _print(f"  {command('generate', folder, 'The import stat', '--top', '10')}", stream)
    _print(f"  {command('train', 'gpt', '--data', 'YOUR_TEXT.txt')}", stream)
    return {"run": str(folder), "val_loss": loss, "story": str(page)} | written.as_json()


def _recipe(data: Path, max_steps: int) -> Recipe:
    steps = {"max_steps": max_steps, "eval_steps": max(1, max_steps // 8)}
    return make_recipe(
        {
            "model": {"name": "gpt", "preset": "modern-xs"},
            "data": {"paths": [str(data)]},
            "tokenizer": {"kind": "char"},
            "training": {**steps, "per_device_train_batch_size": 16},
        }
    )


def _write_topics(path: Path) -> None:
    """Write the topics of Python's reference manual, one document each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"text": text}) for text in topics.values())
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _print(text: str, stream: TextIO) -> None:
    print(text, file=stream, flush=True)
