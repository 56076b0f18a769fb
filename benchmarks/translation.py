"""Multi30k: BLEU on test_2016_flickr of translators trained for a while, with the usual recipe.

    make bench-translation DATA=../shared/data
    python -m benchmarks.translation ../shared/data --only en-de --minutes 45

Each training keeps the model that is best on the validation part; the test part is translated once,
with five beams, and scored by sacreBLEU on plain text.
"""

import argparse
import io
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import describe
from glassformer.tasks import load
from glassformer.training import run as story
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

TRIALS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "en-de": ("en", "de", {"name": "translator"}),
    "en-fr": ("en", "fr", {"name": "translator"}),
    "rnn": ("de", "en", {"name": "rnn-translator"}),
    "rnn-without-attention": ("de", "en", {"name": "rnn-translator", "attention": "none"}),
}


def files(data: Path, part: str, source: str, target: str) -> list[list[str]]:
    return [[str(data / "multi30k" / f"{part}.{language}.gz")] for language in (source, target)]


def trial(data: Path, name: str, minutes: float, folder: Path) -> str:
    source, target, model = TRIALS[name]
    train, valid, test = (
        files(data, part, source, target) for part in ("train", "val", "test_2016_flickr")
    )
    recipe = make_recipe(
        {
            "model": model,
            "data": {
                "source_paths": train[0],
                "target_paths": train[1],
                "validation_source_paths": valid[0],
                "validation_target_paths": valid[1],
            },
            "training": {"time_limit": 60 * minutes},
        }
    )
    started = time.perf_counter()
    outcome = story.train(recipe, RunFolder(folder), io.StringIO())
    seconds = time.perf_counter() - started
    predictor: Any = load(folder)
    found = predictor.evaluate(source_paths=test[0], target_paths=test[1])
    best = outcome.best or {}
    return (
        f"{name:24} {source} to {target}: test BLEU {found.bleu:.2f}  chrF {found.chrf:.2f}  "
        f"validation BLEU {best['val_bleu']:.2f} (greedy, step {outcome.best_step:,} of "
        f"{outcome.max_steps:,})  {seconds:.0f} s\n  {found.signature}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", choices=TRIALS, nargs="*", default=list(TRIALS))
    parser.add_argument("--minutes", type=float, default=45)
    given = parser.parse_args()
    print(describe(), flush=True)
    for name in given.only:
        with TemporaryDirectory() as folder:
            print(trial(given.data, name, given.minutes, Path(folder) / "run"), flush=True)


if __name__ == "__main__":
    main()
