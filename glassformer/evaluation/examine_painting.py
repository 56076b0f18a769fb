"""What to see of a painter: held-out images beside their completions, and what each row costs."""

import numpy as np
import torch
from torch.nn import functional as F

from glassformer.data.rows import Array
from glassformer.data.thumbnails import data_uri
from glassformer.evaluation.chapter import Chapter, Examination, affordable, of_rows, spread
from glassformer.evaluation.evaluating import evaluating
from glassformer.evaluation.painting import with_start
from glassformer.evaluation.precision_recall import NORMAL_95
from glassformer.generation.logits import Sampling
from glassformer.generation.sample import decode
from glassformer.models.image_gpt import ImageGPT
from glassformer.preprocessing.palette import PalettePreprocessing

SHOWN, EACH = 8, 3  # images, and completions of each
READ = 200  # images whose rows are measured
LARGEST = 96  # pixels of a side of an image in a report


def examine_painting(
    model: ImageGPT, preprocessing: PalettePreprocessing, ids: Array
) -> Examination:
    """On the colours (N, P) of held-out images."""
    num_parameters = sum(weight.numel() for weight in model.parameters())
    pixels = ids.shape[1]
    number = affordable(num_parameters, READ * pixels, least=pixels) // pixels
    chosen = spread(len(ids), number)
    note = of_rows(len(chosen), len(ids), "image")
    chapters = _costs(model, preprocessing, ids[chosen].astype(np.int64), note)
    shown = min(SHOWN, max(1, number // EACH))
    return Examination(
        (_completions(model, preprocessing, ids[spread(len(ids), shown)]), *chapters)
    )


def _completions(model: ImageGPT, preprocessing: PalettePreprocessing, ids: Array) -> Chapter:
    height, width = preprocessing.image_size
    given = ids[:, : height // 2 * width].astype(np.int64)
    with evaluating(model):
        steps = decode(
            model,
            [[model.start_token, *row] for row in given.tolist()],
            sampling=Sampling(),
            max_new_tokens=ids.shape[1] - given.shape[1],
            seed=0,
            num_return_sequences=EACH,
            device=model.device,
        )
        painted = np.array(list(steps), dtype=np.int64).T  # (images · EACH, pixels)
    whole = np.concatenate((np.repeat(given, EACH, axis=0), painted), axis=1)
    originals, paintings = preprocessing.pixels(ids), preprocessing.pixels(whole)
    rows = []
    for place, original in enumerate(originals):
        known = original.copy()
        known[height // 2 :] = 128
        images = [original, known, *paintings[place * EACH : (place + 1) * EACH]]
        rows.append([data_uri(image, LARGEST) for image in images])
    columns = ["original", "given", *(f"painted {number + 1}" for number in range(EACH))]
    data = {"columns": columns, "kinds": ["image"] * len(columns), "rows": rows}
    how = "Held-out images in the model's size and colours. The model saw the upper half only."
    return Chapter("Completed images", "table", data, how)


def _costs(
    model: ImageGPT, preprocessing: PalettePreprocessing, ids: Array, note: str
) -> list[Chapter]:
    """Bits per pixel in each row, from the top; nothing if there is only one row."""
    height, width = preprocessing.image_size
    colors = torch.from_numpy(ids).to(model.device)  # (N, P)
    losses = []
    with evaluating(model):
        for some in colors.split(max(1, 2**14 // ids.shape[1])):
            logits = model(with_start(some, model.start_token)).float()  # (B, P, colours)
            losses.append(F.cross_entropy(logits.transpose(1, 2), some, reduction="none").cpu())
    bits = (torch.cat(losses) / np.log(2)).unflatten(1, (height, width)).mean(2).numpy()  # (N, H)
    if height < 2:
        return []
    points = []
    for row in range(height):
        values = bits[:, row].astype(float)
        reach = NORMAL_95 * values.std() / np.sqrt(len(values))
        mean = float(values.mean())
        place = {"x": row + 1, "y": mean, "low": mean - reach, "high": mean + reach}
        points.append(place | {"count": len(values)})
    data = {"x": "row", "y": "bits per pixel", "points": points, "is_share": False, "what": "image"}
    how = f"What the model has seen of an image makes the next rows cheaper. {note}"
    return [Chapter("Bits per pixel by row", "trend", data, how)]
