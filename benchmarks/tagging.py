"""Tags: named entities of wnut17 and parts of speech of ud_english_ewt.

    make bench-tagging DATA=../shared/data PRETRAINED=runs/reviews-bert

Each training keeps the model that is best on the development file; the test file is read once, at
the end. Without PRETRAINED only the tagger from scratch is trained.
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
from glassformer.training.finetuning import on_top_of
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

SETS = {
    "wnut17": ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
    "ud_english_ewt": tuple(f"en_ewt-ud-{part}.conllu.gz" for part in ("train", "dev", "test")),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--pretrained", type=Path, nargs="*", default=[])
    parser.add_argument("--only", choices=SETS)
    options = parser.parse_args()
    print(describe())
    trials: dict[str, dict[str, Any]] = {"tagger": {"model": {"name": "tagger"}}}
    for folder in options.pretrained:
        trials[f"fine-tuned {folder.name}"] = on_top_of(folder, "tag")
    for name in [options.only] if options.only else SETS:
        train, dev, test = (str(options.data / name / file) for file in SETS[name])
        for what, values in trials.items():
            start = time.perf_counter()
            data = {"paths": [train], "validation_paths": [dev]}
            with TemporaryDirectory() as folder:
                run = RunFolder(Path(folder) / "run")
                outcome = story.train(make_recipe(values | {"data": data}), run, io.StringIO())
                predictor: Any = load(run.path)
                found = predictor.evaluate([test])
            best = outcome.best or {}
            f1 = "" if found.f1 is None else f"entity F1 {found.f1:.4f}  "
            print(
                f"{name}, {what}: dev {best[f'val_{outcome.objective.measure}']:.4f}  test {f1}"
                f"accuracy {found.accuracy:.4f}  {time.perf_counter() - start:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
