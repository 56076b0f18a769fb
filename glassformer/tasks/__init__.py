"""Every task by its name. A model is trained for one task; a task is a row of this table."""

import os
from pathlib import Path
from typing import TypeVar, cast

import torch

from glassformer.checkpoint.model_folder import GENERATION
from glassformer.checkpoint.open import open_config, open_model
from glassformer.errors import UsageError
from glassformer.models import row
from glassformer.nn import quantized
from glassformer.nn.attention import merge_projections
from glassformer.nn.linear import pack_weights
from glassformer.predict.predictor import Predictor
from glassformer.runtime.host import prepare
from glassformer.tasks import (
    caption,
    classify,
    classify_images,
    language,
    masked,
    paint,
    probe,
    tag,
    translate,
    word_vectors,
)
from glassformer.tasks.task import Task

PredictorT = TypeVar("PredictorT", bound=Predictor)

TASKS: dict[str, Task] = {
    "language": language.TASK,
    "masked": masked.TASK,
    "classify": classify.TASK,
    "tag": tag.TASK,
    "translate": translate.TASK,
    "paint": paint.TASK,
    "probe": probe.TASK,
    "classify-images": classify_images.TASK,
    "caption": caption.TASK,
    "word-vectors": word_vectors.TASK,
}


def task_of(model: str) -> Task:
    """The task that a model is trained for."""
    return TASKS[row(model).task]


def load(path: str | os.PathLike[str], quantize: str | None = None) -> Predictor:
    """The model in a folder, ready to use: an object with the verbs of its task. The folder may be
    ours or of a Hugging Face model, or the name of such a model on the hub. Loading never runs code
    from it. `quantize="int8"` rounds the weights of linear layers to 8 bits, for speed on a CPU."""
    check_quantization(quantize)
    saved = open_model(path)
    model = saved.model
    if quantize is not None:
        quantized.quantize(model)
    device = "cpu" if quantized.is_quantized(model) else None
    setup = prepare(threads=torch.get_num_threads(), precision="float32", device=device)
    model = model.to(setup.device)
    merge_projections(model)
    pack_weights(model)
    predictor = task_of(saved.name).predictor(model, saved.preprocessing, saved.generation)
    predictor.folder = Path(path)
    predictor.check_defaults(str(Path(path) / GENERATION))
    return predictor


def check_quantization(kind: str | None) -> None:
    if kind not in (None, *quantized.KINDS):
        raise UsageError(
            f'there is no quantisation "{kind}". Choose one of: {", ".join(quantized.KINDS)}.'
        )


def predictor_of(path: str | os.PathLike[str]) -> type[Predictor]:
    """The kind of predictor that the model in a folder has."""
    name, _ = open_config(path)
    return task_of(name).predictor


def load_for(
    path: str | os.PathLike[str],
    kind: type[PredictorT],
    verb: str,
    quantize: str | None = None,
) -> PredictorT:
    """The model in a folder; raise unless it has this verb of this kind of predictor."""
    found = load(path, quantize)
    check_verb(path, kind, verb, type(found))
    return cast(PredictorT, found)  # or one that has the same verb


def check_verb(
    path: str | os.PathLike[str],
    kind: type[Predictor],
    verb: str,
    found: type[Predictor] | None = None,
) -> None:
    """Raise unless the model in a folder, whose predictor may have been found, has this verb; its
    weights are not read."""
    found = found or predictor_of(path)
    if not issubclass(found, kind) and verb not in found.verbs:
        *most, last = found.verbs
        verbs = f"{', '.join(most)} and {last}" if most else last
        raise UsageError(f"{path} cannot {verb}. This model supports {verbs}.")
