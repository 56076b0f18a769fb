"""A page of every family of models, from tiny models with random weights."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from picture_models import captioner, multiscale, painter, picture, shaken, vit
from torch import nn
from translators import translator

from glassformer.checkpoint.model_folder import save_model, save_snapshot
from glassformer.inspect.views import draw
from glassformer.models.bag import Bag, BagConfig
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.classifier import Classifier, ClassifierConfig, Tagger, TaggerConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.rnn import (
    RNNClassifier,
    RNNClassifierConfig,
    RNNLanguageModel,
    RNNLanguageModelConfig,
)
from glassformer.preprocessing.masking import MaskedTextPreprocessing
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks import load
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.masked.predictor import MaskedPredictor
from glassformer.tasks.tag.predictor import TagPredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import BERT_TOKENS

TEXT = "a bad day, said the cat. the lower the slower"
WORDS = "one two three four five six"
SHAPE: dict[str, Any] = {"num_layers": 2, "d_model": 16, "num_heads": 4, "context_length": 24}
RECURRENT: dict[str, Any] = {"num_layers": 1, "d_embedding": 12, "d_model": 16}
LABELS: dict[str, Any] = {"labels": ("good", "bad", "so-so")}
METRICS = "step,train_loss,learning_rate,val_loss\n10,3.5,0.1,\n20,2.5,0.1,2.75\n"


def language(kind: Any = "bpe", is_recurrent: bool = False) -> LanguagePredictor:
    tokenizer = train_tokenizer(kind, [TEXT] * 3, 280 if kind == "bpe" else None)
    size = {"vocab_size": tokenizer.vocab_size}
    model: nn.Module = (
        RNNLanguageModel(RNNLanguageModelConfig(**RECURRENT | size, context_length=24))
        if is_recurrent
        else GPT(GPTConfig(**SHAPE | size))
    )
    return LanguagePredictor(shaken(model), TextPreprocessing(tokenizer=tokenizer, is_causal=True))


def with_history() -> Any:
    """A language model as a run leaves it, with the weights of four of its steps."""
    predictor = language("char")
    with TemporaryDirectory() as name:
        run = Path(name)
        for number, step in enumerate((0, 1, 5, 20)):
            torch.manual_seed(number)
            for parameter in predictor.model.parameters():
                nn.init.normal_(parameter, std=0.15 * (number + 1))
            save_snapshot(run, step, predictor.model)
        save_model(run, predictor.model, predictor.preprocessing)
        (run / "recipe.yaml").write_text("model: {name: gpt}\n")
        (run / "metrics.csv").write_text(METRICS)
        (run / "samples.txt").write_text("--- step 20 ---\nthe cat sat\n")
        model: Any = load(run)
        seen = model.inspect("a bad day")
        history = seen.subject.history()  # while the folder is there
        object.__setattr__(seen.subject, "history", lambda: history)
        return seen


def masked(has_head: bool = True) -> Any:
    tokenizer = train_tokenizer("word", [WORDS] * 3, None, list(BERT_TOKENS))
    config = BertConfig(**SHAPE, vocab_size=tokenizer.vocab_size, has_head=has_head)
    return MaskedPredictor(shaken(Bert(config)), MaskedTextPreprocessing(tokenizer=tokenizer))


def labelled(predictor: Any, model: Any, config: Any, shape: dict[str, Any]) -> Any:
    tokenizer = train_tokenizer("word", [WORDS] * 3)
    model = shaken(model(config(**shape | LABELS, vocab_size=tokenizer.vocab_size)))
    return predictor(model, TextPreprocessing(tokenizer=tokenizer))


FAMILIES: dict[str, Callable[[], Any]] = {
    "gpt": lambda: language().inspect("a bad day, said the cat"),
    "gpt-history": with_history,
    "rnn-lm": lambda: language("char", is_recurrent=True).inspect("a bad day"),
    "bert": lambda: masked().inspect("one [MASK] three four"),
    "encoder": lambda: masked(has_head=False).inspect("one two three"),
    "translator": lambda: translator().inspect("one two three four", target="two one four"),
    "rnn-translator": lambda: translator("rnn").inspect("one two three", target="two one"),
    "classifier": lambda: labelled(ClassifyPredictor, Classifier, ClassifierConfig, SHAPE).inspect(
        "one two three two"
    ),
    "rnn-classifier": lambda: labelled(
        ClassifyPredictor, RNNClassifier, RNNClassifierConfig, RECURRENT
    ).inspect("one two three"),
    "bag": lambda: labelled(ClassifyPredictor, Bag, BagConfig, {"d_model": 4}).inspect("one two"),
    "tagger": lambda: labelled(TagPredictor, Tagger, TaggerConfig, SHAPE).inspect("one two three"),
    "vit": lambda: vit().inspect(picture()),
    "multiscale-vit": lambda: multiscale().inspect(picture()),
    "image-gpt": lambda: painter().inspect(picture(3, 4)),
    "captioner": lambda: captioner().inspect(picture(), target="a red cat on"),
    "show-attend-tell": lambda: captioner("show-attend-tell").inspect(picture(), target="a red"),
}


def write_page(name: str, folder: Path) -> Path:
    path = folder / f"{name}.html"
    draw(FAMILIES[name](), path)
    return path
