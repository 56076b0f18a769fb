"""How close `train --time-limit` comes to its limit, for one model of each kind: alone, while
another program computes all the time, and with one that begins after a fifth of the time and ends
after three fifths. The time is that of the whole command. Use an idle machine.

    python -m benchmarks.time_limit DATA                     # DATA has sst2/ and multi30k/
    python -m benchmarks.time_limit DATA --limit 5m --models gpt bag
"""

import argparse
import json
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from benchmarks.busy import TORCH, beside
from benchmarks.machine import describe
from glassformer.wording import clock, seconds_of

REVIEWS = ("--data", "sst2/train.tsv")
TEXT = ("--data", "multi30k/train.en.gz")
PAIRS = ("--source", "multi30k/train.en.gz", "--target", "multi30k/train.de.gz")
MODELS = {
    "gpt": TEXT,
    "bag": REVIEWS,
    "classifier": REVIEWS,
    "rnn-classifier": REVIEWS,
    "bert": TEXT,
    "translator": PAIRS,
}
STATES = ("nothing", "busy", "changing")
MANY = "1000000"  # steps: more than fit into any limit
TO_THE_END = "training.early_stopping=null"  # a model that stops improving would end early


def measured(model: str, data: Path, limit: str, out: Path, state: str) -> tuple[float, int]:
    """Seconds of the whole command, from Enter to the end, and its steps."""
    words = [word if word.startswith("-") else str(data / word) for word in MODELS[model]]
    command = [sys.executable, "-m", "glassformer", "train", model, *words]
    command += ["--max-steps", MANY, "--set", TO_THE_END]
    command += ["--time-limit", limit, "--out", str(out), "--json"]
    whole = seconds_of(limit)
    with ExitStack() as others, TemporaryFile() as printed:
        if state == "busy":
            others.enter_context(beside(TORCH))
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL) as training:
            if state == "changing":
                time.sleep(0.2 * whole)
                with beside(TORCH), suppress(subprocess.TimeoutExpired):
                    training.wait(0.4 * whole)
        seconds = time.perf_counter() - begin
        printed.seek(0)
        text = printed.read()
    if training.returncode:
        raise SystemExit(f"{model} failed")
    return seconds, json.loads(text)["step"]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("--limit", default="2m")
    options.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options.add_argument("--states", nargs="+", choices=STATES, default=STATES)
    given = options.parse_args()
    limit = seconds_of(given.limit)
    print(describe())
    print(f"{'model':16} {'beside':10} {'limit':>8} {'real':>8} {'off by':>8} {'steps':>8}")
    for model, state in product(given.models, given.states):
        with TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            found, steps = measured(model, given.data, given.limit, out, state)
        off = found / limit - 1
        print(
            f"{model:16} {state:10} {clock(limit):>8} {clock(found):>8} {off:>+8.1%} {steps:8,}",
            flush=True,
        )


if __name__ == "__main__":
    main()
