"""Small language models, as a server has them."""

from typing import Any

import torch

from glassformer.models.gpt import GPT, GPTConfig
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.serve.explore import StoryModel
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.text.tokenizer_training import train_tokenizer

PORT = 8000
TEXT = "a bad day, said the cat."


def small_gpt(num_layers: int, seed: int = 0, **more: Any) -> LanguagePredictor:
    tokenizer = train_tokenizer("char", [TEXT] * 3)
    torch.manual_seed(seed)
    shape = {"d_model": 16, "num_heads": 4, "context_length": 64, "num_layers": num_layers} | more
    model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **shape))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return LanguagePredictor(model, TextPreprocessing(tokenizer=tokenizer, is_causal=True))


def story_model(name: str, predictor: Any, **more: Any) -> StoryModel:
    return StoryModel(name, "gpt", predictor, predictor.view("story", name), **more)
