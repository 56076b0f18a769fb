"""ImageGPT: bits per dimension against simple models of pixels, linear probes, and completions.

    python -m benchmarks.image_gpt digits [--steps N]
    python -m benchmarks.image_gpt cifar --data cifar10_jpeg.zip [--steps N] [--limit 60m]

digits   8 × 8 pixels, 16 greys. Beside the model, on the same images and the same palette:
           pixels      each pixel on its own: how often each grey occurs at its place
           neighbours  the greys to the left, above and around, mixed from the finest context that
                       was seen often enough to the coarsest (prediction by partial matching)
           trees       gradient-boosted trees on the place and twelve pixels before it
         and a linear probe on every layer.
cifar    16 × 16 pixels, 512 colours: bits per dimension, and a picture of completed images.

A dimension is the palette colour of one pixel (see glassformer/tasks/paint/scores.py).
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import glassformer
from glassformer.data.archives import local_path
from glassformer.data.built_in import write_built_in
from glassformer.data.folders import files_below
from glassformer.inspect.views import draw

# The pixels before a pixel, nearest first: (rows up, columns to the right).
BEFORE = [(0, -1), (1, 0), (1, -1), (1, 1), (0, -2), (2, 0), (1, 2), (1, -2), (2, -1), (2, 1)]
BEFORE += [(0, -3), (3, 0)]
# Contexts from fine to coarse: the place, and how many of these pixels.
CONTEXTS = [(False, 4), (False, 3), (True, 2), (False, 2), (True, 1), (True, 0)]


def neighbours(images: np.ndarray, edge: int) -> np.ndarray:
    """(N, H, W) → (N, H, W, 12) the pixels before each; `edge` stands for those outside."""
    padded = np.pad(images, ((0, 0), (3, 0), (3, 3)), constant_values=edge)
    height, width = images.shape[1:]
    shifted = [
        padded[:, 3 - up : 3 - up + height, 3 + right : 3 + right + width] for up, right in BEFORE
    ]
    return np.stack(shifted, axis=-1)


def independent(train: np.ndarray, test: np.ndarray, colors: int) -> float:
    """Bits per pixel of the frequencies at each place, each colour counted half a time more."""
    bits = 0.0
    for row in range(train.shape[1]):
        for column in range(train.shape[2]):
            counts = np.bincount(train[:, row, column], minlength=colors) + 0.5
            bits -= np.log2(counts[test[:, row, column]] / counts.sum()).sum()
    return float(bits / test.size)


def context_model(train: np.ndarray, test: np.ndarray, colors: int, strength: float = 2.0) -> float:
    """Bits per pixel of counts in contexts of neighbours, each smoothed by the next coarser one:
    p = (count + strength · coarser p) / (total + strength)."""
    height, width = train.shape[1:]
    place = np.arange(height * width).reshape(1, height, width)
    tables: list[tuple[dict[bytes, np.ndarray], bool, int]] = []
    seen = neighbours(train, colors)
    for has_place, number in CONTEXTS:
        table: dict[bytes, np.ndarray] = {}
        places = np.broadcast_to(place, train.shape) if has_place else np.zeros_like(train)
        keys = np.concatenate((places[..., None], seen[..., :number]), axis=-1).astype(np.int16)
        flat = keys.reshape(-1, number + 1)
        for key, color in zip(flat, train.ravel(), strict=True):
            counts = table.setdefault(key.tobytes(), np.zeros(colors))
            counts[color] += 1
        tables.append((table, has_place, number))
    around, bits = neighbours(test, colors), 0.0
    for image, row, column in np.ndindex(*test.shape):
        p = np.full(colors, 1 / colors)
        for table, has_place, number in reversed(tables):
            own = row * width + column if has_place else 0
            key = np.array([own, *around[image, row, column, :number]], dtype=np.int16).tobytes()
            counts = table.get(key)
            if counts is not None:
                p = (counts + strength * p) / (counts.sum() + strength)
        bits -= np.log2(p[test[image, row, column]])
    return float(bits / test.size)


def trees(train: np.ndarray, test: np.ndarray, colors: int) -> float:
    """Bits per pixel of gradient-boosted trees on the place and the twelve pixels before it; the
    number of trees is chosen on a tenth of the training images."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    def rows(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        height, width = images.shape[1:]
        places = np.stack(np.mgrid[:height, :width], axis=-1)
        places = np.broadcast_to(places, (*images.shape, 2))
        inputs = np.concatenate((neighbours(images, -1), places), axis=-1)
        return inputs.reshape(-1, inputs.shape[-1]), images.ravel()

    held = np.arange(len(train)) % 10 == 0
    model: Any = HistGradientBoostingClassifier(
        learning_rate=0.06,
        max_iter=300,
        max_leaf_nodes=15,
        min_samples_leaf=30,
        early_stopping=True,
        n_iter_no_change=8,
        random_state=0,
    )
    inputs, targets = rows(train[~held])
    checked, answers = rows(train[held])
    model.fit(inputs, targets, X_val=checked, y_val=answers)
    inputs, targets = rows(test)
    p = model.predict_proba(inputs)
    place = {color: index for index, color in enumerate(model.classes_)}
    index = np.array([place.get(color, -1) for color in targets])
    chosen = np.where(index >= 0, p[np.arange(len(p)), index], 0)
    return float(-np.log2(np.maximum(chosen, 1e-6)).mean())


def colors_of(predictor: Any, paths: Sequence[str]) -> np.ndarray:
    """(N, H, W) the colours of images, as the model reads them."""
    kind = predictor.preprocessing
    images, _ = kind.read_unlabelled(paths, None, "utf-8")
    ids = kind.ids(np.stack([each.input for each in images])).astype(np.int64)
    return ids.reshape(-1, *kind.image_size)


def digits(steps: int | None, settings: dict[str, Any], work: Path) -> dict[str, Any]:
    data = work / "digits"
    write_built_in("digits", data, force=True)
    begin = time.perf_counter()
    options: dict[str, Any] = {} if steps is None else {"max_steps": steps}
    run = glassformer.train(
        "image-gpt",
        data / "train",
        out=work / "run",
        palette=16,
        image_size=8,
        force=True,
        test_data=data / "test",
        settings=settings,
        **options,
    )
    seconds = time.perf_counter() - begin
    predictor = run.predictor
    train, test = (colors_of(predictor, [str(data / part)]) for part in ("train", "test"))
    colors = len(predictor.preprocessing.palette)
    found = {
        "image-gpt": predictor.evaluate(str(data / "test")).bits_per_dim,
        "pixels": independent(train, test, colors),
        "neighbours": min(context_model(train, test, colors, each) for each in (8.0, 32.0, 128.0)),
        "trees": trees(train, test, colors),
        "uniform": float(np.log2(colors)),
    }
    draw(predictor.generate(num_return_sequences=64, seed=0), work / "digits_samples.png")
    probe = glassformer.finetune(
        run, "probe", data / "train", out=work / "probe", force=True, test_data=data / "test"
    )
    scores = json.loads((probe.folder / "test.json").read_text())["scores"]
    return {
        "seconds": seconds,
        "bits_per_dim": found,
        "probe_accuracy": scores["accuracy"],
        "probe_after_layers": int(probe.predictor.model.layer),
        "held_out_accuracy_by_layer": probe.predictor.model.accuracies.tolist(),
    }


def cifar(
    data: str, steps: int | None, limit: str | None, settings: dict[str, Any], work: Path
) -> dict[str, Any]:
    options: dict[str, Any] = {} if steps is None else {"max_steps": steps}
    options |= {} if limit is None else {"time_limit": limit}
    begin = time.perf_counter()
    run = glassformer.train(
        "image-gpt",
        f"{data}/train",
        out=work / "cifar",
        image_size=16,
        palette=512,
        force=True,
        settings={"augmentation.flip": 0.5} | settings,
        **options,
    )
    seconds = time.perf_counter() - begin
    predictor = run.predictor
    found = predictor.evaluate(f"{data}/test")
    files = [str(each) for each in files_below(local_path(f"{data}/test"))]
    some = files[:: len(files) // 8][:8]
    draw(predictor.complete(some, keep=0.5, seed=0, num_return_sequences=6), work / "cifar.png")
    return {"seconds": seconds, "bits_per_dim": found.bits_per_dim, "num_images": found.num_images}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("set", choices=("digits", "cifar"))
    parser.add_argument("--data", default="cifar10_jpeg.zip")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--limit", help="time limit of the training, e.g. 30m")
    parser.add_argument("--out", type=Path, help="folder for runs and pictures")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    settings = {
        key: yaml.safe_load(value) for key, _, value in (e.partition("=") for e in given.settings)
    }
    work = given.out or Path(tempfile.mkdtemp(prefix="image-gpt-"))
    work.mkdir(parents=True, exist_ok=True)
    if given.set == "digits":
        found = digits(given.steps, settings, work)
    else:
        found = cifar(given.data, given.steps, given.limit, settings, work)
    print(json.dumps(found, indent=2))
    print(f"runs and pictures: {work}")


if __name__ == "__main__":
    main()
