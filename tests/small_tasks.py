"""Texts to classify and sentences to tag that a tiny model learns in a second."""

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoint.model_folder import load_model
from glassformer.progress import Notify, silently
from glassformer.tasks.recipe import Recipe
from glassformer.training import run as training
from glassformer.training.finetuning import new_model
from glassformer.training.preparation import load_objective, make_recipe, prepare
from glassformer.training.run_folder import RunFolder
from glassformer.training.verify import verify

NOISE = [
    *("the", "film", "was", "a", "story", "of", "some", "people"),
    *("in", "one", "town", "and", "it", "had", "music", "too"),
]
OPINIONS = {"good": ["good", "fine", "great"], "bad": ["bad", "awful", "poor"]}
NAMES = ["Ada", "Grace", "Alan", "Emmy", "Kurt", "Sofia", "Carl", "Leonhard"]
OTHERS = ["the", "works", "with", "and", "meets", "sees", "a", "who", "friend", "city", "in", "of"]

ENCODER = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_feedforward": 32}
ENCODER |= {"context_length": 32}
MACHINE = {"device": "cpu", "precision": "float32", "num_threads": 1, "report_to": []}

AtBatch = Callable[[int, Callable[[], None]], None]
Contents = Callable[[Path], dict[str, bytes]]


class PowerError(Exception):
    """An interruption at an arbitrary moment."""


def reviews(folder: Path, count: int = 240) -> Path:
    """Words of noise, with one or two among them that reveal the label."""
    draw = random.Random(0)
    path = folder / "reviews.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["review", "sentiment"])
        for number in range(count):
            label = ("good", "bad")[number % 2]
            words = draw.choices(NOISE, k=draw.randint(2, 12))
            for word in draw.choices(OPINIONS[label], k=draw.randint(1, 2)):
                words.insert(draw.randint(0, len(words)), word)
            table.writerow([" ".join(words), label])
    return path


def topics(folder: Path, count: int = 240) -> Path:
    """Texts with none, one or both of two labels."""
    draw = random.Random(0)
    path = folder / "topics.jsonl"
    with path.open("w") as file:
        for number in range(count):
            labels = [label for bit, label in enumerate(OPINIONS) if number >> bit & 1]
            words = draw.choices(NOISE, k=draw.randint(2, 8))
            for label in labels:
                words.insert(draw.randint(0, len(words)), draw.choice(OPINIONS[label]))
            file.write(json.dumps({"text": " ".join(words), "labels": labels}) + "\n")
    return path


def sentences(folder: Path, count: int = 150, name_tag: str = "B-NAME") -> Path:
    """Capitalised words are names, digits are numbers, and the rest is O."""
    draw = random.Random(0)
    path = folder / "words.conll"
    with path.open("w") as file:
        for _ in range(count):
            for _ in range(draw.randint(3, 10)):
                kind = draw.random()
                if kind < 0.25:
                    file.write(f"{draw.choice(NAMES)}\t{name_tag}\n")
                elif kind < 0.4:
                    file.write(f"{draw.randint(10, 99)}\tNUM\n")
                else:
                    file.write(f"{draw.choice(OTHERS)}\tO\n")
            file.write("\n")
    return path


def recipe_for(name: str, data: Path, model: dict[str, Any] | None = None, **more: Any) -> Recipe:
    """`more` are other sections, keys of the section training, and `held_out`, a file."""
    sections = {key: more.pop(key) for key in ("objective", "finetune", "tokenizer") if key in more}
    held_out = [str(more.pop("held_out"))] if "held_out" in more else []
    recurrent = {"d_embedding": 16, "d_model": 16}
    sizes = {"bag": {"d_model": 16}, "word-vectors": {"d_model": 16}, "rnn-classifier": recurrent}
    steps = {"max_steps": 60, "eval_steps": 20, "save_steps": 20, "learning_rate": 0.02}
    steps |= {"per_device_train_batch_size": 16, "warmup_steps": 3}
    return make_recipe(
        {
            "model": {"name": name, **sizes.get(name, ENCODER), **(model or {})},
            "data": {"paths": [str(data)], "validation_paths": held_out},
            "training": steps | MACHINE | more,
            **sections,
        }
    )


def ready(recipe: Recipe, folder: Path, notify: Notify = silently) -> tuple[Any, Any]:
    """What to learn, with every choice made, and a new model to learn it."""
    objective = prepare(recipe, folder, notify)
    return objective, new_model(objective.recipe)


def reopened(folder: Path) -> tuple[Any, Any]:
    """What a run had to learn, and the model that it kept."""
    return load_objective(RunFolder(folder).recipe(), folder), load_model(folder).model


def trained(recipe: Recipe, folder: Path) -> Path:
    training.train(recipe, RunFolder(folder), io.StringIO())
    return folder


def best(folder: Path) -> dict[str, float]:
    """The scores of the best validation, by their column."""
    run = RunFolder(folder)
    found = run.state(run.last_step()).standing.best
    assert found is not None
    return found


def curve(run: Path, column: str) -> list[float]:
    with (run / "metrics.csv").open() as file:
        return [float(row[column]) for row in csv.DictReader(file) if row[column]]


def config_of(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return values


def check_that_it_resumes_exactly(
    recipe: Recipe, folder: Path, at_batch: AtBatch, contents: Contents, batch: int
) -> None:
    """A run that is cut off before this batch and resumed leaves the same bytes as one that is not,
    and its replay is identical."""

    def cut() -> None:
        raise PowerError

    straight = contents(trained(recipe, folder / "straight"))
    run = RunFolder(folder / "cut")
    at_batch(batch, cut)
    with pytest.raises(PowerError):
        training.train(recipe, run, io.StringIO())
    assert 0 < run.last_step() < run.recipe().decided.max_steps
    training.resume(run, io.StringIO())
    assert contents(run.path) == straight
    assert verify(run, io.StringIO()).identical
