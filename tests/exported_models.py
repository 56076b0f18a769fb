"""Small models of ours with random weights, to be exported."""

from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoint.model_folder import save_model
from glassformer.models import row
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import Tokenizer

TEXT = ["the quick brown fox jumps over a lazy dog while it rains", "a dog is no fox"] * 20
SHAPE = {"num_layers": 2, "d_model": 32, "num_heads": 4, "context_length": 32}
LABELS = ("bad", "good")
CLS = {"labels": LABELS, "pooling": "first", "pooler": True}
POST_NORM = {"pre_norm": False, "final_norm": False}
MODERN = {"positions": "rotary", "norm": "rms", "activation": "swiglu", "bias": False}


def tokenizer(kind: Any, *special: str) -> Tokenizer:
    return train_tokenizer(kind, TEXT, 300, special_tokens=special)


def a_model(folder: Path, name: str, preprocessing: Any, **config: Any) -> Path:
    """A model of ours with random weights, in a folder."""
    torch.manual_seed(0)
    known = row(name)
    fields = known.config.model_fields
    sizes = {key: size for key, size in preprocessing.sizes.items() if size is not None}
    values = {key: size for key, size in (SHAPE | sizes).items() if key in fields}
    model = known.model(known.config(**values | config))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    save_model(folder, model, preprocessing, "# the card\n")
    return folder


def a_gpt(folder: Path, **config: Any) -> Path:
    return a_model(folder, "gpt", TextPreprocessing(tokenizer=tokenizer("bpe")), **config)
