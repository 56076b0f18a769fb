"""Probe: how well can a linear classifier read the label of an image from each layer?

The states of every layer of a trained ImageGPT, averaged over a few groups of rows, are the
features of a logistic regression. Held-out images choose the layer, and how strongly its weights
are penalised; only test images judge the result. So a probe is a labeller that no gradient step
trains: the task has a `fit` of its own, and the layer and the accuracy of all layers are buffers of
the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.checkpoint.open import open_preprocessing
from glassformer.data.image_files import ImagesConfig
from glassformer.data.image_sets import ImageRows, read_split_images
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.chapters import Chapter, Examination, wilson
from glassformer.models.image_gpt import ImageGPTProbe
from glassformer.preprocessing.images import PalettePreprocessing
from glassformer.progress import Notify
from glassformer.tasks.evaluating import held_out
from glassformer.tasks.images.predictor import ImageLabelPredictor
from glassformer.tasks.labels.scores import judge
from glassformer.tasks.labels.task import ClassObjective, report_split
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.rows import LabelledImageDataset, LabelledImageSource, image_to_try
from glassformer.tasks.task import Command, Defaults, Objective, Task
from glassformer.wording import counted

PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
STEPS = 60  # of the search for weights
READ_AT_ONCE = 2**14  # pixels
BAR = 30  # characters
PARTS = 4  # of an image, by default: groups of rows


class ProbeRecipe(Recipe):
    """A recipe for a probe: labelled images, and the model to look into."""

    data: ImagesConfig


@dataclass(frozen=True)
class ProbeSource(LabelledImageSource):
    """Labelled images, and the colours of the model that reads them."""

    preprocessing: PalettePreprocessing

    def choices(self, recipe: Recipe) -> dict[str, dict[str, Any]]:
        labels = list(self.images.split.labels)
        decides = {"labels": labels, "context_length": self.preprocessing.num_pixels}
        if recipe.model.get("parts") is None:
            decides["parts"] = min(PARTS, self.preprocessing.image_size[0])
        return {"model": decides}


def read(recipe: ProbeRecipe, folder: Path, notify: Notify) -> ProbeSource:
    start = recipe.start
    if start is None:
        raise UsageError(
            "a probe needs a trained image-gpt. Run glassformer finetune RUN --task probe."
        )
    if start.lora_rank or start.freeze_layers:
        raise UsageError(
            "a probe trains no layer of the model. Leave out --lora-rank and --freeze-layers."
        )
    preprocessing = open_preprocessing(start.model)
    if not isinstance(preprocessing, PalettePreprocessing):
        raise GlassformerError(f"{start.model} does not paint images. Pass an image-gpt.")
    size = preprocessing.image_size
    if recipe.data.image_size not in (None, size):
        height, width = size
        raise UsageError(f"the model paints {height}×{width} pixels. Leave out --image-size.")
    update = {"image_size": size, "num_channels": preprocessing.num_channels}
    data = recipe.data.model_copy(update=update)
    images = read_split_images(data, recipe.training.seed, folder, lambda _: size)
    split = images.split
    what = f"{counted(len(split.training), 'image')} of {counted(len(split.labels), 'label')}"
    report_split(what, split, notify)
    return ProbeSource(images, preprocessing.model_copy(update=images.columns))


class ProbeDataset(LabelledImageDataset):
    """Labelled images, read as rows of colours."""

    unit = "image"
    preprocessing: PalettePreprocessing

    @property
    def default_batch_size(self) -> int:
        return len(self.training)  # a regression reads all images at each step

    def colors(self, rows: ImageRows, numbers: range) -> Tensor:
        """(B, P) of some images."""
        return torch.from_numpy(self.preprocessing.ids(rows.images(numbers)).astype(np.int64))


class ProbeObjective(ClassObjective):
    """Name the label of an image."""

    dataset: ProbeDataset
    decides = Objective.decides  # there is only one probe
    can_weigh = False

    def loss(self, model: ImageGPTProbe, batch: Any) -> Tensor:
        raise TypeError("a probe is not trained by gradient steps")

    @torch.no_grad()
    def logits(self, model: ImageGPTProbe, rows: Sequence[int]) -> Tensor:
        validation, indices = self.dataset.validation, np.asarray(rows)
        part = ImageRows(validation.store, validation.numbers[indices], validation.targets[indices])
        states = pooled_states(model, self.dataset, part)[:, int(model.layer)].to(model.device)
        return model.head((states - model.mean) / model.deviation).cpu()

    def sample(self, model: ImageGPTProbe, step: int) -> str:
        return " ".join(f"{share:.0%}" for share in model.accuracies.tolist())

    def examine(self, model: ImageGPTProbe) -> Examination:
        count = len(self.dataset.validation)
        points = []
        for layer, share in enumerate(model.accuracies.tolist()):
            low, high = wilson(round(share * count), count)
            point = {"x": layer, "y": share, "low": low, "high": high, "count": count}
            points.append(point)
        data = {"x": "layers", "y": "accuracy", "points": points, "is_share": True}
        data["what"] = "image"
        note = "Each point is a linear classifier on the mean states after that many layers: 0 is "
        note += "the embedding, 1 the output of layer 0."
        return Examination((Chapter("What each layer knows", "trend", data, note),))

    def trials(self, folder: Path | str) -> Sequence[Command]:
        held_out = self.dataset.validation
        return (("classify", folder, image_to_try(held_out.store, int(held_out.numbers[0]))),)


def pooled_states(model: ImageGPTProbe, data: ProbeDataset, rows: ImageRows) -> Tensor:
    """The features of every layer, of all images: (N, layers + 1, parts · D)."""
    size = max(1, READ_AT_ONCE // data.preprocessing.num_pixels)
    parts = [range(first, min(first + size, len(rows))) for first in range(0, len(rows), size)]
    batches = held_out(model, parts, lambda part: data.colors(rows, part))
    return torch.cat([model.pooled(colors).float().cpu() for colors in batches])


class _Probe(NamedTuple):
    """A linear classifier: logits = W (x - μ) / σ + b."""

    loss: float
    accuracy: float
    weight: Tensor
    bias: Tensor
    mean: Tensor
    deviation: Tensor


def fit(objective: ProbeObjective, model: ImageGPTProbe, stream: TextIO) -> None:
    """Fit a probe on every layer, and keep the one with the lowest held-out loss: with few held-out
    images, accuracy would choose by chance."""
    data = objective.dataset
    learned, held = (pooled_states(model, data, part) for part in (data.training, data.validation))
    targets, answers = (part.goals(range(len(part))) for part in (data.training, data.validation))
    probes = []
    for layer in range(learned.size(1)):
        probe = _best_of_layer(learned[:, layer], held[:, layer], targets, answers, data.labels)
        probes.append(probe)
        name = "embedding" if layer == 0 else f"layer {layer - 1}"
        bar = "█" * round(BAR * probe.accuracy)
        print(f"{name:10} {probe.accuracy:6.1%} loss {probe.loss:.3f} {bar}", file=stream)
    best = min(range(len(probes)), key=lambda layer: probes[layer].loss)
    probe = probes[best]
    what = "the embedding knows" if best == 0 else f"layer {best - 1} knows"
    about = f"loss {probe.loss:.3f}, {probe.accuracy:.1%} of the held-out images are right"
    print(f"{what} most: {about}", file=stream)
    with torch.no_grad():
        model.layer.fill_(best)
        model.accuracies.copy_(torch.tensor([one.accuracy for one in probes]))
        model.mean.copy_(probe.mean)
        model.deviation.copy_(probe.deviation)
        model.head.weight.copy_(probe.weight)
        model.head.bias.copy_(probe.bias)


def _best_of_layer(
    learned: Tensor, held: Tensor, targets: Tensor, answers: Tensor, labels: Sequence[str]
) -> _Probe:
    """The probe with the lowest held-out loss on a layer."""
    mean, deviation = learned.mean(0), learned.std(0, correction=0).clamp(min=1e-6)
    learned, held = (learned - mean) / deviation, (held - mean) / deviation
    probes = []
    for penalty in PENALTIES:
        weight, bias = _fit_linear(learned, targets, len(labels), penalty)
        scores = judge(F.linear(held, weight, bias), answers, labels)
        probes.append(_Probe(scores.loss, scores.accuracy, weight, bias, mean, deviation))
    return min(probes, key=lambda probe: probe.loss)


def _fit_linear(
    features: Tensor, targets: Tensor, num_labels: int, penalty: float
) -> tuple[Tensor, Tensor]:
    """Weights (C, D) and biases (C,) of multinomial logistic regression, by L-BFGS.

    loss = mean of -log softmax(W x + b)[label] + penalty / 2 · |W|²
    """
    weight = torch.zeros(num_labels, features.size(1), requires_grad=True)
    bias = torch.zeros(num_labels, requires_grad=True)
    search = torch.optim.LBFGS((weight, bias), max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        search.zero_grad()
        loss = F.cross_entropy(F.linear(features, weight, bias), targets)
        loss = loss + penalty / 2 * weight.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        search.step(closure)
    return weight.detach(), bias.detach()


class ProbePredictor(ImageLabelPredictor):
    """A probe in use: it classifies images, from one layer of an ImageGPT."""

    preprocessing_class = PalettePreprocessing
    model: ImageGPTProbe
    preprocessing: PalettePreprocessing
    can_weigh_labels = False


TASK = Task(
    recipe=ProbeRecipe,
    read=read,
    dataset=ProbeDataset,
    objective=ProbeObjective,
    predictor=ProbePredictor,
    defaults=lambda recipe: Defaults(epochs=1, fewest_steps=1),
    fit=fit,  # type: ignore[arg-type]
)
