"""Default classifiers beside TF-IDF + logistic regression and fastText, on unlike data sets.

    make bench-classifiers DATA=../shared/data            (--seeds 3, --cells sst2-1000 …)

Everything is trained by the plain command, without options. The baseline is trained on the same
part of the training file as the models; fastText (`pip install fasttext-numpy2-wheel`), if it is
installed, on all of it, with bigrams and its own defaults otherwise.
"""

import argparse
import csv
import importlib.util
import io
import re
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.label_cells import write_cells
from benchmarks.machine import describe
from glassformer.tasks import load
from glassformer.tasks.classify.task import tfidf_baseline
from glassformer.training import run as story
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

MODELS = ("bag", "classifier", "rnn-classifier")
WORD = re.compile(r"[\w']+|[^\w\s]")


def trained(model: str, cell: Path, seed: int, folder: Path) -> tuple[float, Any, RunFolder]:
    """Accuracy on the test file; the predictor; the run."""
    values = {
        "model": {"name": model},
        "data": {"paths": [f"{cell}.train.csv"]},
        "training": {"seed": seed},
    }
    run = RunFolder(folder)
    story.train(make_recipe(values), run, io.StringIO())
    predictor: Any = load(run.path)
    return predictor.evaluate([f"{cell}.test.csv"]).accuracy, predictor, run


def fasttext_accuracy(cell: Path, folder: Path) -> float:
    import fasttext

    def lines(part: str) -> list[tuple[str, str]]:
        with Path(f"{cell}.{part}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        return [
            (" ".join(WORD.findall(row["text"].lower())), row["label"].replace(" ", "_"))
            for row in rows
        ]

    path = folder / "fasttext.txt"
    path.write_text("".join(f"__label__{label} {text}\n" for text, label in lines("train")))
    model = fasttext.train_supervised(str(path), wordNgrams=2, epoch=25, verbose=0, thread=1)
    test = lines("test")
    found, _ = model.predict([text for text, _ in test])
    pairs = zip(found, test, strict=True)
    return sum(names[0] == f"__label__{label}" for names, (_, label) in pairs) / len(test)


def measure(cell: Path, seeds: int, models: list[str], folder: Path) -> str:
    """One row of the table."""
    cells, baselines = {}, []
    for model in models:
        found, seconds = [], []
        for seed in range(seeds):
            start = time.perf_counter()
            accuracy, predictor, run = trained(model, cell, seed, folder / f"{model}-{seed}")
            found.append(accuracy)
            seconds.append(time.perf_counter() - start)
            if model == models[0]:
                arguments = {"paths": [f"{cell}.test.csv"]}
                found_baseline = tfidf_baseline(run.recipe(), predictor, arguments)
                baselines.append(found_baseline.result().accuracy)
        cells[model] = f"{statistics.mean(found):.4f} ({statistics.mean(seconds):.0f} s)"
    row = [cell.name, f"{statistics.mean(baselines):.4f}"]
    if importlib.util.find_spec("fasttext"):
        row.append(f"{fasttext_accuracy(cell, folder):.4f}")
    return "| " + " | ".join([*row, *cells.values()]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--cells", nargs="*")
    options = parser.parse_args()
    print(describe())
    others = ["fastText"] if importlib.util.find_spec("fasttext") else []
    print("| " + " | ".join(["cell", "TF-IDF + LR", *others, *options.models]) + " |")
    with TemporaryDirectory() as folder:
        for name in write_cells(options.data, Path(folder)):
            if options.cells and name not in options.cells:
                continue
            with TemporaryDirectory() as runs:
                row = measure(Path(folder) / name, options.seeds, options.models, Path(runs))
            print(row, flush=True)


if __name__ == "__main__":
    main()
