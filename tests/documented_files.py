"""What the README and the docs speak of: files, in small, and commands."""

from pathlib import Path
from typing import Any

import numpy as np
import typer
from PIL import Image

from glassformer.cli.main import app

TEXT = (
    "It takes great courage to let yourself appear weak. The smooth blue lake. Once upon a time.\n"
)
VERDICTS = (("fine", "good"), ("poor", "bad"))


def taken(words: list[str]) -> Any:
    """The context of a command that the program takes, as it understands these words."""
    verb: Any = typer.main.get_command(app)
    while hasattr(verb, "commands"):
        verb, words = verb.commands[words[0]], words[1:]
    return verb.make_context(verb.name, [*words])


def write_files(folder: Path) -> None:
    for number, name in enumerate(("notes.txt", "shakespeare.txt", "held_out.txt", "corpus.txt")):
        (folder / name).write_text(TEXT * (60 + number))
    rows = [f"film {n} was {word},{label}" for n in range(30) for word, label in VERDICTS]
    for name in ("reviews.csv", "test.csv"):
        (folder / name).write_text("\n".join(["review,sentiment", *rows]) + "\n")
    lives = "Ada\tB-person\nlives\tO\nin\tO\nLondon{}\tB-place\n\n"
    (folder / "train.conll").write_text("".join(lives.format(n) for n in range(30)))
    english = [f"A man sleeps {n} hours." for n in range(30)]
    french = [f"Un homme dort {n} heures." for n in range(30)]
    pairs = ["\t".join(pair) for pair in zip(english, french, strict=True)]
    sides = {"train": 30, "val": 4, "test": 4}
    files = {"pairs.tsv": pairs} | {f"{name}.en": english[:n] for name, n in sides.items()}
    files |= {f"{name}.fr": french[:n] for name, n in sides.items()}
    _write_images(folder)
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")


def _write_images(folder: Path) -> None:
    """Dark and light squares in a folder each, and captions of them."""
    random, captions = np.random.default_rng(0), ["image,caption"]
    for name, brightness in (("dark", 40), ("light", 200)):
        (folder / "images" / name).mkdir(parents=True)
        for number in range(16):
            pixels = random.integers(brightness - 40, brightness + 40, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "images" / name / f"{number}.png")
            captions.append(f"images/{name}/{number}.png,a {name} square")
    (folder / "captions.csv").write_text("\n".join(captions) + "\n")
