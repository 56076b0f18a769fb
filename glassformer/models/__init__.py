"""Every model by its name. The table is closed: a file on disk can only choose from it."""

import difflib
from dataclasses import dataclass
from typing import Any

from torch import nn

from glassformer.config import Config
from glassformer.errors import UsageError
from glassformer.models.bag import BAG_PRESETS, BAG_SIZES, Bag, BagConfig
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.bert_presets import CLASSIFIER_PRESETS, ENCODER_PRESETS, ENCODER_SIZES
from glassformer.models.classifier import (
    Classifier,
    ClassifierConfig,
    GPTClassifier,
    GPTClassifierConfig,
    GPTTagger,
    GPTTaggerConfig,
    Tagger,
    TaggerConfig,
)
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.gpt_presets import GPT_PRESETS, GPT_SIZES
from glassformer.models.rnn import (
    RNN_CLASSIFIER_PRESETS,
    RNN_PRESETS,
    RNN_SIZES,
    RNNClassifier,
    RNNClassifierConfig,
    RNNLanguageModel,
    RNNLanguageModelConfig,
)
from glassformer.models.rnn_seq2seq import (
    RNN_TRANSLATOR_PRESETS,
    RNN_TRANSLATOR_SIZES,
    RNNTranslator,
    RNNTranslatorConfig,
)
from glassformer.models.transformer import (
    TRANSFORMER_PRESETS,
    TRANSFORMER_SIZES,
    Transformer,
    TransformerConfig,
)


@dataclass(frozen=True)
class Entry:
    """A model, its config, and the presets that users know by name."""

    task: str
    """What it is trained for: one of the names in training/tasks."""
    config: type[Config]
    model: type[nn.Module]
    presets: dict[str, dict[str, Any]]
    sizes: tuple[tuple[float, str], ...]
    """Which preset suits how much text: (at least so many tokens, preset), largest first."""

    @property
    def smallest(self) -> str:
        return self.sizes[-1][1]

    def preset(self, name: str) -> dict[str, Any]:
        if name not in self.presets:
            raise UsageError(f'there is no preset "{name}". There are: {", ".join(self.presets)}.')
        return self.presets[name]


MODELS: dict[str, Entry] = {
    "gpt": Entry("language", GPTConfig, GPT, GPT_PRESETS, GPT_SIZES),
    "rnn-lm": Entry("language", RNNLanguageModelConfig, RNNLanguageModel, RNN_PRESETS, RNN_SIZES),
    "bert": Entry("masked", BertConfig, Bert, ENCODER_PRESETS, ENCODER_SIZES),
    "bag": Entry("classify", BagConfig, Bag, BAG_PRESETS, BAG_SIZES),
    "rnn-classifier": Entry(
        "classify", RNNClassifierConfig, RNNClassifier, RNN_CLASSIFIER_PRESETS, RNN_SIZES
    ),
    "classifier": Entry(
        "classify", ClassifierConfig, Classifier, CLASSIFIER_PRESETS, ENCODER_SIZES
    ),
    "gpt-classifier": Entry("classify", GPTClassifierConfig, GPTClassifier, GPT_PRESETS, GPT_SIZES),
    "tagger": Entry("tag", TaggerConfig, Tagger, ENCODER_PRESETS, ENCODER_SIZES),
    "gpt-tagger": Entry("tag", GPTTaggerConfig, GPTTagger, GPT_PRESETS, GPT_SIZES),
    "translator": Entry(
        "translate", TransformerConfig, Transformer, TRANSFORMER_PRESETS, TRANSFORMER_SIZES
    ),
    "rnn-translator": Entry(
        "translate",
        RNNTranslatorConfig,
        RNNTranslator,
        RNN_TRANSLATOR_PRESETS,
        RNN_TRANSLATOR_SIZES,
    ),
}
FINETUNED = ("gpt-classifier", "gpt-tagger")  # what `finetune` makes of a gpt
TO_TRAIN = tuple(name for name in MODELS if name not in FINETUNED)
"""The models that users name to train them."""


def entry(name: str) -> Entry:
    if name not in MODELS:
        near = difflib.get_close_matches(name, MODELS, n=1)
        cure = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(TO_TRAIN)}."
        raise UsageError(f'there is no model "{name}". {cure}')
    return MODELS[name]
