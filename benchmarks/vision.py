"""Images: accuracy after a time limit, beside logistic regression on pixels.

    make bench-vision DATA=../shared/data                       cifar10, 30 minutes for each model
    make bench-vision DATA=../shared/data MINUTES=5 MODELS=vit
    make bench-digits                                           scikit-learn's digits

Every model is trained by the command that a user would type, with its defaults and a time limit;
test images are read once, at the end. Use an idle machine.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.machine import describe
from glassformer.data.image_sets import read_images

MODELS = ("vit", "multiscale-vit")


def command(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "glassformer", *map(str, words)], stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode()


def trained(model: str, train: str, test: str, folder: Path, *more: str) -> dict[str, Any]:
    """What `evaluate` says of the best model, and how long everything took."""
    begin = time.perf_counter()
    command("train", model, "--data", train, "--out", folder / model, *more)
    seconds = time.perf_counter() - begin
    found: dict[str, Any] = json.loads(
        command("evaluate", folder / model, "--data", test, "--json")
    )
    return found | {"seconds": seconds}


def pixels_of(path: str, size: int, channels: int) -> tuple[Any, list[str]]:
    with TemporaryDirectory() as folder:
        examples, _ = read_images([path], Path(folder), (size, size), channels, role="label")
        images = np.stack([each.input for each in examples]).reshape(len(examples), -1)
    return images.astype(np.float32) / 255, [each.labels[0] for each in examples]


def logistic_regression(train: str, test: str, size: int, channels: int) -> tuple[float, float]:
    """Test accuracy and seconds."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    begin = time.perf_counter()
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=100))
    model.fit(*pixels_of(train, size, channels))
    accuracy = float(model.score(*pixels_of(test, size, channels)))
    return accuracy, time.perf_counter() - begin


def compare(
    train: str, test: str, size: int, channels: int, models: list[str], folder: Path, *more: str
) -> None:
    for model in models:
        found = trained(model, train, test, folder, *more)
        low, high = found["accuracy_interval"]
        print(
            f"{model:20} test accuracy {found['accuracy']:.4f} (95% interval {low:.4f} to "
            f"{high:.4f}), macro F1 {found['macro_f1']:.4f}, {found['seconds']:.0f} s",
            flush=True,
        )
    accuracy, seconds = logistic_regression(train, test, size, channels)
    print(f"{'logistic regression':20} test accuracy {accuracy:.4f}, {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="?", help="a folder with cifar10_jpeg/; none: digits")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--out", type=Path, help="keep the runs in this folder")
    options = parser.parse_args()
    print(describe(), flush=True)
    with TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        if options.data:
            archive = f"{options.data}/cifar10_jpeg/cifar10_jpeg.zip"
            limit = ("--time-limit", f"{round(options.minutes * 60)}s")
            paths = (f"{archive}/train", f"{archive}/test")
            compare(*paths, 32, 3, options.models, folder, *limit)
        else:
            digits = Path(scratch) / "digits"
            command("data", "digits", "--out", digits)
            paths = (f"{digits}/train", f"{digits}/test")
            compare(*paths, 8, 1, options.models, folder)


if __name__ == "__main__":
    main()
