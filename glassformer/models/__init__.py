"""Every model by name: one row each.

The table is closed: a file on disk can only choose from it. It imports neither torch nor pydantic,
so that `--help` can list models and presets; a row imports its model's module when first asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from glassformer.errors import UsageError
from glassformer.models import presets
from glassformer.models.presets import Choice, Presets, Sizes
from glassformer.wording import did_you_mean

if TYPE_CHECKING:
    from torch import nn

    from glassformer.config import Config

    Code = Callable[[], tuple[type[Config], type[nn.Module]]]


@dataclass(frozen=True)
class ModelRow:
    """A model, its task, and the presets that users know by name."""

    task: str
    """Name of the task it is trained for."""
    about: str
    """Half a line for `--help`."""
    code: Code
    """Returns its config class and its model class; imports them when called."""
    presets: Presets
    sizes: Sizes
    """Which preset suits how much data: (minimum number of items, preset), largest first."""
    body: str | None = None
    """Name of the pre-trained model that `finetune` can build it on."""
    from_scratch: bool = True
    """False if only `finetune` makes it."""
    when_finetuned: Mapping[str, Any] = field(default_factory=dict)
    """Values of its config that `finetune` chooses, where a pre-trained model has none."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """How it is usually trained, where that differs from its task's other models."""
    trial: tuple[str, ...] = ()
    """A verb and its input, to try a published model with; {mask} is its own."""

    @property
    def config(self) -> type[Config]:
        return self.code()[0]

    @property
    def model(self) -> type[nn.Module]:
        return self.code()[1]

    @property
    def smallest(self) -> str:
        return self.sizes[-1][1]

    def preset(self, name: str) -> dict[str, Any]:
        if name not in self.presets:
            parts = (
                f'there is no preset "{name}".',
                did_you_mean(name, self.presets, ""),
                f"Available presets: {', '.join(self.presets)}.",
            )
            raise UsageError(" ".join(filter(None, parts)))
        return self.presets[name]


def _row(task: str, path: str, about: str, choice: Choice, **more: Any) -> ModelRow:
    """`path` is the model's module and class; its config has the same name and "Config"."""

    @cache
    def code() -> tuple[type[Config], type[nn.Module]]:
        file, name = path.split(".")
        module = importlib.import_module(f"glassformer.models.{file}")
        return getattr(module, f"{name}Config"), getattr(module, name)

    return ModelRow(task, about, code, *choice, **more)


MODELS: dict[str, ModelRow] = {
    "gpt": _row(
        "language",
        "gpt.GPT",
        "a causal language model",
        presets.GPT,
        trial=("generate", "Once upon a time"),
    ),
    "rnn-lm": _row(
        "language", "rnn.RNNLanguageModel", "a recurrent language model", presets.RNN_LM
    ),
    "bert": _row(
        "masked",
        "bert.Bert",
        "a masked language model",
        presets.ENCODER,
        trial=("fill", "Paris is the {mask} of France."),
    ),
    "bag": _row(
        "classify",
        "bag.Bag",
        "a bag-of-words text classifier",
        presets.BAG,
        defaults={"optimizer": "sgd", "sgd": 0.2, "epochs": 6, "weight_decay": 0.0},
    ),
    "rnn-classifier": _row(
        "classify",
        "rnn.RNNClassifier",
        "a recurrent classifier of texts or time series",
        presets.RNN_CLASSIFIER,
        defaults={"epochs": 4, "muon": 3e-3},  # learns more slowly than a Transformer
    ),
    "classifier": _row(
        "classify",
        "classifier.Classifier",
        "a Transformer classifier of texts or time series",
        presets.CLASSIFIER,
        body="bert",
        when_finetuned={"bag": True, "bag_ngram_weight": 1.0},
        trial=("classify", "A wonderful film."),
    ),
    "gpt-classifier": _row(
        "classify",
        "classifier.GPTClassifier",
        "a text classifier on a pre-trained GPT",
        presets.GPT,
        body="gpt",
        when_finetuned={"bag": True, "bag_ngram_weight": 1.0},
        from_scratch=False,
    ),
    "tagger": _row(
        "tag",
        "classifier.Tagger",
        "a Transformer that labels every word",
        presets.ENCODER,
        body="bert",
        trial=("tag", "Ada Lovelace lived in London."),
    ),
    "gpt-tagger": _row(
        "tag",
        "classifier.GPTTagger",
        "a tagger on a pre-trained GPT",
        presets.GPT,
        body="gpt",
        from_scratch=False,
    ),
    "translator": _row(
        "translate",
        "transformer.Transformer",
        "a Transformer encoder-decoder",
        presets.TRANSFORMER,
        trial=("translate", "How are you?"),
    ),
    "rnn-translator": _row(
        "translate",
        "rnn_seq2seq.RNNTranslator",
        "a recurrent encoder-decoder with attention",
        presets.RNN_TRANSLATOR,
    ),
    "captioner": _row(
        "caption",
        "captioner.Captioner",
        "a ViT and a Transformer decoder that describe images",
        presets.CAPTIONER,
    ),
    "show-attend-tell": _row(
        "caption",
        "show_attend_tell.ShowAttendTell",
        "convolutions and a recurrent decoder that describe images",
        presets.SHOW_ATTEND_TELL,
    ),
    "vit": _row(
        "classify-images",
        "vit.ViT",
        "a Transformer classifier of images",
        presets.VIT,
        trial=("classify", "IMAGE"),
    ),
    "multiscale-vit": _row(
        "classify-images",
        "multiscale_vit.MultiscaleViT",
        "an image classifier with stages and windows (Swin)",
        presets.MULTISCALE,
        trial=("classify", "IMAGE"),
    ),
    "image-gpt": _row(
        "paint",
        "image_gpt.ImageGPT",
        "a GPT over pixels that paints images",
        presets.IMAGE_GPT,
        trial=("generate", "--out", "samples.png"),
    ),
    "image-gpt-probe": _row(
        "probe",
        "image_gpt.ImageGPTProbe",
        "a linear classifier on a layer of a trained image-gpt",
        presets.IMAGE_GPT,
        body="image-gpt",
        from_scratch=False,
    ),
    "word-vectors": _row(
        "word-vectors",
        "word_vectors.WordVectors",
        "a vector for each word, by skip-gram",
        presets.WORD_VECTORS,
    ),
}


def row(name: str) -> ModelRow:
    """The row of that name; an unknown name is an error that suggests the nearest."""
    if name not in MODELS:
        cure = did_you_mean(name, MODELS, f"Available models: {', '.join(trainable())}.")
        raise UsageError(f'there is no model "{name}". {cure}')
    return MODELS[name]


def trainable() -> tuple[str, ...]:
    """The models that can be trained from scratch."""
    return tuple(name for name, row in MODELS.items() if row.from_scratch)


def name_of(model: nn.Module) -> str:
    """The name under which the table lists a model's class."""
    return next(name for name, row in MODELS.items() if type(model) is row.model)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def built_on(body: str, task: str) -> str | None:
    """The model that solves `task` on top of the pre-trained model `body`, if there is one."""
    rows = MODELS.items()
    return next((name for name, row in rows if (row.body, row.task) == (body, task)), None)
