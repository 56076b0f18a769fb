"""Captions of drawn scenes, whose truth is known, and of a thousand photos.

    python -m benchmarks.captions --model captioner --count 5000 --max-steps 1500
    python -m benchmarks.captions --run runs/captioner-shapes            a model that is there
    python -m benchmarks.captions --photos ../shared/data/flickr8k_1000 --model show-attend-tell

Scenes: `exact` is the share of new scenes whose caption is one of the true sentences about them.
`place` is the share of the nouns of those captions (circle, square …) for which the centre of the
place with the largest weight lies on the box of the shape that is meant, grown by one place on each
side; `mass` is the mean share of attention inside that box; `area` is the share of the image that
the box covers, so what looking anywhere would score. Attention is the mean over all layers and
heads.

Photos: a tenth is held out; BLEU-4 and CIDEr-D of captions that the model writes by itself.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import glassformer
from benchmarks.machine import describe
from glassformer.data.shapes import write_shapes
from glassformer.inspect.alignment import WordPlaces
from glassformer.tasks import load
from glassformer.tasks.caption.predictor import CaptionPredictor

Box = tuple[float, float, float, float]  # left, top, right, bottom


def shape_words(words: list[str], scene: dict[str, Any]) -> Iterator[tuple[int, Box]]:
    """The places of the nouns of a caption, and the box of the shape that each one means."""
    for number in range(2, len(words)):
        for shape in scene["shapes"]:
            if words[number - 2 : number + 1] == [shape["size"], shape["color"], shape["shape"]]:
                yield number, tuple(shape["box"])
                break


def looked_at(found: WordPlaces, number: int, box: Box, side: float) -> tuple[bool, float, float]:
    """Whether the peak of a word lies on a box, grown by one place; the share of attention and the
    share of the image inside. `side` is that of the square image."""
    rows, columns = found.grid
    left, top, right, bottom = box
    y = (np.arange(rows) + 0.5) * side / rows
    x = (np.arange(columns) + 0.5) * side / columns
    inside = np.outer(
        (y > top - side / rows) & (y < bottom + side / rows),
        (x > left - side / columns) & (x < right + side / columns),
    )
    row, column = found.peaks()[number]
    return bool(inside[row, column]), float(found.weights[number][inside].sum()), inside.mean()


def evaluate_scenes(model: CaptionPredictor, folder: Path) -> str:
    result = model.evaluate(str(folder / "captions.csv"), num_beams=1)
    seen = []
    for scene in json.loads((folder / "scenes.json").read_text()):
        found = model.look(str(folder / scene["image"]), num_beams=1)
        if found.caption in scene_captions(scene):
            for number, box in shape_words(found.words, scene):
                seen.append(looked_at(found, number, box, scene["size"][0]))
    place, mass, area = np.mean(np.array(seen, dtype=float), axis=0)
    return (
        f"exact {result.exact_match:.1%}  BLEU {result.bleu:.1f}  CIDEr-D {result.cider_d:.2f}  "
        f"place {place:.1%}  mass {mass:.1%}  area {area:.1%}  "
        f"({result.num_images:,} scenes, {len(seen):,} nouns)"
    )


def scene_captions(scene: dict[str, Any]) -> list[str]:
    from glassformer.data.shapes import Scene, Shape

    shapes = (Shape(**{**each, "box": tuple(each["box"])}) for each in scene["shapes"])
    return Scene(tuple(shapes), scene["relation"]).captions


def photos(table: Path, model: str, folder: Path, options: dict[str, Any]) -> str:
    run = glassformer.train(model, str(table), out=folder / "run", quiet=False, **options)
    found = run.best or {}
    scores = "  ".join(f"{name.removeprefix('val_')} {value:.3f}" for name, value in found.items())
    return f"{scores} (greedy, on held-out photos)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="captioner")
    parser.add_argument("--run", type=Path, help="a trained model, instead of training one")
    parser.add_argument("--photos", type=Path, help="folder of captions.csv, instead of scenes")
    parser.add_argument("--count", type=int, default=5000, help="scenes to train on")
    parser.add_argument("--tested", type=int, default=1000, help="new scenes to describe")
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--batch-size", type=int)
    given = parser.parse_args()
    options = {"max_steps": given.max_steps, "batch_size": given.batch_size}
    print(describe())
    begin = time.perf_counter()
    with TemporaryDirectory() as home:
        folder = Path(home)
        if given.photos is not None:
            print(given.model, photos(given.photos / "captions.csv", given.model, folder, options))
            return
        run = given.run
        if run is None:
            write_shapes(folder / "train", given.count, seed=0)
            data = str(folder / "train" / "captions.csv")
            run = glassformer.train(given.model, data, out=folder / "run", **options).folder
        seconds = time.perf_counter() - begin
        write_shapes(folder / "test", given.tested, seed=1)  # other scenes
        model = load(run)
        if not isinstance(model, CaptionPredictor):
            raise SystemExit(f"{run} does not describe images")
        print(
            f"{given.model} {evaluate_scenes(model, folder / 'test')}  trained in {seconds:.0f} s"
        )


if __name__ == "__main__":
    main()
