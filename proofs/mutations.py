"""Damage the files of a small model and of a training state in many ways. Each time the folder is
refused with a sentence, or what is loaded is what was saved: never anything else, and no crash.

    python -m proofs.mutations 100000
"""

import io
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from glassformer.checkpoint.model_folder import load_model
from glassformer.checkpoint.training_state import load_state
from glassformer.errors import GlassformerError
from glassformer.training import run as story
from glassformer.training.run_folder import RunFolder
from glassformer.training.verify import first_difference
from proofs.runs import small_recipe

MODEL_FILES = ("config.json", "preprocessor_config.json", "tokenizer.json", "model.safetensors")
STATE_FILES = ("state.json", "state.safetensors", "manifest.json")


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Changed in one of the ways in which files go bad."""
    place = draw.randrange(len(content))
    end = min(len(content), place + draw.choice((1, 2, 8, 100, 512)))
    match draw.randrange(8):
        case 0:  # a bit
            flipped = content[place] ^ 1 << draw.randrange(8)
            return content[:place] + bytes([flipped]) + content[place + 1 :]
        case 1:  # some bytes at random
            return content[:place] + draw.randbytes(end - place) + content[end:]
        case 2:  # cut off
            return content[:place]
        case 3:  # a hole
            return content[:place] + content[end:]
        case 4:  # zeros, as after a crash of the file system
            return content[:place] + bytes(end - place) + content[end:]
        case 5:  # a piece twice
            return content[:end] + content[place:]
        case 6:  # something behind
            return content + draw.randbytes(end - place)
        case _:  # another digit or letter where there is one
            swapped = bytes([draw.choice(b'0123456789abcdefTF"{}[],:')])
            return content[:place] + swapped + content[place + 1 :]


def model_in(folder: Path) -> dict[str, Any]:
    saved = load_model(folder)
    settings = saved.preprocessing.model_dump()
    text = saved.preprocessing.tokenizer._backend.to_str()
    both = {"config": saved.model.config, "preprocessing": settings, "tokenizer": text}
    return both | saved.model.state_dict()


def prove(number: int, seed: int = 0) -> str:
    torch.set_num_threads(1)
    draw = random.Random(seed)
    refused = same = 0
    with TemporaryDirectory(prefix="mutations-") as name:
        folder = Path(name)
        run = RunFolder(folder / "run")
        story.train(small_recipe(folder, max_steps=4), run, io.StringIO())
        cases: tuple[tuple[Path, tuple[str, ...], Callable[[Path], dict[str, Any]]], ...] = (
            (run.path, MODEL_FILES, model_in),
            (run.checkpoint(4), STATE_FILES, load_state),
        )
        for source, names, load in cases:
            good = folder / f"good-{source.name}"
            good.mkdir()
            for file in names:
                shutil.copy(source / file, good)
            expected = load(good)
            for trial in range(number // len(cases)):
                path = good / draw.choice(names)
                before = path.read_bytes()
                path.write_bytes(mutated(before, draw))
                try:
                    found = load(good)
                except GlassformerError as error:
                    if not str(error).strip():
                        raise SystemExit(f"trial {trial}: refused without a word") from None
                    refused += 1
                else:
                    if first_difference(expected, found) is not None:
                        raise SystemExit(f"trial {trial}: a changed {path.name} was believed")
                    same += 1
                path.write_bytes(before)
    return f"{refused + same:,} mutations: {refused:,} refused, {same:,} without effect, 0 believed"


if __name__ == "__main__":
    print(prove(int(sys.argv[1])))
