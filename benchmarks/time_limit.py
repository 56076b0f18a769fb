"""How close `train --time-limit` comes to its limit, for one model of each kind. The time is that
of the whole command. Use an idle machine.

    python -m benchmarks.time_limit DATA                     # DATA has sst2/ and multi30k/
    python -m benchmarks.time_limit DATA --limit 5m --models gpt bag
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.machine import describe
from glassformer.durations import seconds_of
from glassformer.wording import clock

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
MANY = "1000000"  # steps: more than fit into any limit
TO_THE_END = "training.early_stopping=null"  # a model that stops improving would end early


def seconds(model: str, data: Path, limit: str, out: Path) -> float:
    """The whole command, from Enter to the end."""
    words = [word if word.startswith("-") else str(data / word) for word in MODELS[model]]
    command = [sys.executable, "-m", "glassformer", "train", model, *words]
    command += ["--max-steps", MANY, "--set", TO_THE_END]
    command += ["--time-limit", limit, "--out", str(out)]
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - begin


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("data", type=Path)
    options.add_argument("--limit", default="2m")
    options.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    given = options.parse_args()
    limit = seconds_of(given.limit)
    print(describe())
    print(f"{'model':16} {'limit':>8} {'real':>8} {'off by':>8}")
    for model in given.models:
        with TemporaryDirectory() as folder:
            found = seconds(model, given.data, given.limit, Path(folder) / "run")
        print(
            f"{model:16} {clock(limit):>8} {clock(found):>8} {found / limit - 1:>+8.1%}", flush=True
        )


if __name__ == "__main__":
    main()
