"""How soon is a given quality reached? The default recipe against GPT-2's shape with AdamW, both
trained here, one after the other, on the same text.

    python -m benchmarks.quality tinyshakespeare.txt
    python -m benchmarks.quality tinyshakespeare.txt --minutes 15      the best in that time
"""

import argparse
import io
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from benchmarks.machine import describe
from glassformer.training import run as story
from glassformer.training.preparation import make_recipe
from glassformer.training.run import fit
from glassformer.training.run_folder import RunFolder

SHAPE = {"num_layers": 4, "d_model": 128, "num_heads": 4, "context_length": 64}
BATCH = {"per_device_train_batch_size": 12, "eval_steps": 10**6, "report_to": []}
BASELINE = {
    "model": {"name": "gpt", "preset": None, "tie_weights": True, **SHAPE},
    "training": BATCH
    | {
        "max_steps": 2000,
        "optimizer": "adamw",
        "learning_rate": 1e-3,
        "lr_scheduler_type": "cosine",
        "min_lr_rate": 0.1,
        "warmup_steps": 100,
    },
}
GPT2_STYLE = {
    "positions": "learned",
    "norm": "layer",
    "qk_norm": False,
    "activation": "gelu_tanh",
    "bias": True,
    "initialization": "gpt2",
    "d_feedforward": 512,
    "num_kv_heads": 4,
}
OURS = {
    "model": {"name": "gpt", "preset": "modern-xs", "context_length": SHAPE["context_length"]},
    "training": BATCH | {"max_steps": 220},
}
QUARTER_HOUR = {
    "model": {"name": "gpt", "preset": "modern-xs", "context_length": 256},
    "training": {},
}


def train(
    text: Path, recipe: dict[str, Any], stream: TextIO | None = None, **training: Any
) -> tuple[float, float]:
    """(seconds of training, validation loss), the reading of the text and the imports apart."""
    values = recipe | {"data": {"paths": [str(text)]}, "tokenizer": {"kind": "char"}}
    values["training"] = recipe["training"] | training
    stream = stream or io.StringIO()
    with TemporaryDirectory() as folder:
        run = RunFolder(Path(folder) / "run")
        story.begin(make_recipe(values), run, lambda line: None)
        start = time.perf_counter()
        outcome = fit(run, stream)
        return time.perf_counter() - start, outcome.best["val_loss"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("text", type=Path)
    options.add_argument("--minutes", type=float)
    given = options.parse_args()
    print(describe())
    if given.minutes:
        seconds, loss = train(given.text, QUARTER_HOUR, sys.stderr, time_limit=60 * given.minutes)
        print(f"in {seconds:.0f} s: validation loss {loss:.4f}")
        return
    baseline = BASELINE | {"model": BASELINE["model"] | GPT2_STYLE}
    train(given.text, baseline, max_steps=2)  # warms up
    theirs, goal = train(given.text, baseline)
    print(f"GPT-2 style, AdamW, 2,000 steps: {goal:.4f} in {theirs:.1f} s", flush=True)
    ours, loss = train(given.text, OURS)
    print(
        f"the default recipe with {OURS['training']['max_steps']} steps: {loss:.4f} in {ours:.1f} s"
    )
    print(f"{theirs / ours:.2f} times as soon" if loss <= goal else "the goal was not reached")


if __name__ == "__main__":
    main()
