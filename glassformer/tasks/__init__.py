"""Every task by its name, and a trained model ready to use.

A model is trained for one task; a task is its files in a room of its own and a row of this table.

    load(folder)   →  checkpoint  →  device  →  the predictor of its task
"""

import importlib
import os
from pathlib import Path
from typing import TypeVar, cast

import torch

from glassformer.checkpoint.model_folder import GENERATION
from glassformer.checkpoint.open import open_config, open_model
from glassformer.errors import UsageError
from glassformer.machine.host import set_up
from glassformer.models import row
from glassformer.nn import int8
from glassformer.nn.attention import merge_projections
from glassformer.nn.linear import pack_weights
from glassformer.tasks.task import Predictor, Task
from glassformer.wording import joined

PredictorT = TypeVar("PredictorT", bound=Predictor)


class _Table(dict[str, Task | str]):
    """Tasks by name. Each is imported from its module when it is first asked for, so that using one
    does not import the others."""

    def __getitem__(self, name: str) -> Task:
        task = super().__getitem__(name)
        if isinstance(task, str):
            task = self[name] = importlib.import_module(f"glassformer.tasks.{task}").TASK
        return task


TASKS = _Table(
    {
        "language": "language.task",
        "masked": "masked.task",
        "classify": "classify.task",
        "tag": "tag.task",
        "translate": "translate.task",
        "paint": "paint.task",
        "probe": "paint.probe",
        "classify-images": "images.task",
        "caption": "caption.task",
        "word-vectors": "word_vectors.task",
    }
)


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
        int8.quantize(model)
    device = "cpu" if int8.is_quantized(model) else None
    setup = set_up(threads=torch.get_num_threads(), precision="float32", device=device)
    model = model.to(setup.device)
    merge_projections(model)
    pack_weights(model)
    predictor = task_of(saved.name).predictor(model, saved.preprocessing, saved.generation)
    predictor.folder = Path(path)
    predictor.check_defaults(str(Path(path) / GENERATION))
    return predictor


def check_quantization(kind: str | None) -> None:
    if kind not in (None, *int8.KINDS):
        raise UsageError(
            f'there is no quantisation "{kind}". Choose one of: {", ".join(int8.KINDS)}.'
        )


def predictor_of(path: str | os.PathLike[str]) -> type[Predictor]:
    """The kind of predictor that the model in a folder has."""
    name, _ = open_config(path)
    return task_of(name).predictor


def load_for(
    path: str | os.PathLike[str], kind: type[PredictorT], verb: str, quantize: str | None = None
) -> PredictorT:
    """The model in a folder; raise unless it has this verb of this kind of predictor."""
    predictor = load(path, quantize)
    check_verb(path, kind, verb, type(predictor))
    return cast(PredictorT, predictor)  # or one that has the same verb


def check_verb(
    path: str | os.PathLike[str],
    kind: type[Predictor],
    verb: str,
    predictor: type[Predictor] | None = None,
) -> None:
    """Raise unless the model in a folder has this verb. Without its predictor, the folder is looked
    up; its weights are not read."""
    predictor = predictor or predictor_of(path)
    if not issubclass(predictor, kind) and verb not in predictor.verbs:
        supported = joined(predictor.verbs)
        raise UsageError(f"{path} cannot {verb}. This model supports {supported}.")
