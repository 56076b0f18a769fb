"""sst2: classifiers from the simplest to a pre-trained one, three seeds each, beside TF-IDF.

    make bench-sentiment DATA=../shared/data PRETRAINED=runs/reviews-gpt

Each training keeps the model that is best on dev.tsv; test.tsv is read once, at the end. Without
PRETRAINED only what needs none is trained. How to pre-train: recipes/reviews-gpt.yaml.
"""

import argparse
import io
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.machine import describe
from glassformer.data.labelled_texts import read_examples
from glassformer.tasks import load
from glassformer.tasks.labels.baseline import TfidfBaseline
from glassformer.tasks.labels.scores import judge
from glassformer.training import run as story
from glassformer.training.finetuning import on_top_of
from glassformer.training.preparation import make_recipe
from glassformer.training.run_folder import RunFolder

SEEDS = (0, 1, 2)


def trained(values: dict[str, Any], data: Path, seed: int, folder: Path) -> tuple[float, float]:
    """Accuracy on dev, and on test."""
    paths = {"paths": [str(data / "train.tsv")], "validation_paths": [str(data / "dev.tsv")]}
    recipe = make_recipe(values | {"data": paths, "training": {"seed": seed}})
    run = RunFolder(folder)
    outcome = story.train(recipe, run, io.StringIO())
    found: Any = load(run.path)
    best = outcome.best or {}
    return best["val_accuracy"], found.evaluate([str(data / "test.tsv")]).accuracy


def baseline(data: Path) -> tuple[float, float]:
    train, *others = (
        read_examples([str(data / name)]).examples for name in ("train.tsv", "dev.tsv", "test.tsv")
    )
    labels = sorted({label for example in train for label in example.labels})

    def targets(examples: list[Any]) -> Any:
        import torch

        return torch.tensor([labels.index(each.labels[0]) for each in examples])

    model = TfidfBaseline([each.text for each in train], targets(train).numpy(), labels)

    def accuracy(examples: list[Any]) -> float:
        logits = model.logits([each.text for each in examples])
        return judge(logits, targets(examples), labels).accuracy

    dev, test = map(accuracy, others)
    return dev, test


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--pretrained", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    data = options.data / "sst2"
    print(describe())
    dev, test = baseline(data)
    print(f"{'TF-IDF + logistic regression':32} dev {dev:.4f}  test {test:.4f}", flush=True)
    trials: dict[str, dict[str, Any]] = {
        name: {"model": {"name": name}} for name in ("bag", "rnn-classifier", "classifier")
    }
    for folder in options.pretrained:
        trials[f"fine-tuned {folder.name}"] = on_top_of(folder, "classify")
    for name, values in trials.items():
        begin_time = time.perf_counter()
        with TemporaryDirectory() as folder:
            found = [trained(values, data, seed, Path(folder) / str(seed)) for seed in SEEDS]
        seconds = (time.perf_counter() - begin_time) / len(SEEDS)
        devs, tests = zip(*found, strict=True)
        print(
            f"{name:32} dev {statistics.mean(devs):.4f}  test {statistics.mean(tests):.4f} "
            f"± {statistics.stdev(tests):.4f}  ({', '.join(f'{test:.4f}' for test in tests)})  "
            f"{seconds:.0f} s each",
            flush=True,
        )


if __name__ == "__main__":
    main()
