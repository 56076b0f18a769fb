"""Translators that know nothing, or a little: they have to keep their promises all the same."""

import random
from functools import cache
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from glassformer.generation.beam import Hypothesis
from glassformer.models.rnn_seq2seq import RNNTranslator, RNNTranslatorConfig
from glassformer.models.sources import Translator
from glassformer.models.transformer import Transformer, TransformerConfig
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.tasks.translate.predictor import TranslatePredictor
from glassformer.text.tokenizer_training import train_tokenizer
from glassformer.text.tokenizers import START, Tokenizer

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
SENTENCES = "One, two (three)! Four; five: six? Seven… eight. “Nine” — ten’s 10%, $5 and it’s."

KINDS: dict[str, dict[str, Any]] = {
    "transformer": {
        "num_layers": 2,
        "d_model": 16,
        "num_heads": 2,
        "tie_weights": False,
        "output_bias": True,
    },
    "rnn": {"num_layers": 2, "d_embedding": 12, "d_model": 16},
    "rnn without attention": {"d_embedding": 12, "d_model": 16, "attention": "none"},
}


def vocabulary(kind: Any, text: str = " ".join(WORDS)) -> Tokenizer:
    return train_tokenizer(kind, [f" {text}"] * 3, 500 if kind != "word" else None, [START])


def random_model(kind: str, tokenizer: Tokenizer, **more: Any) -> Translator:
    torch.manual_seed(2)
    sizes = {"vocab_size": tokenizer.vocab_size, "context_length": 24, **KINDS[kind], **more}
    model: Translator
    if kind == "transformer":
        model = Transformer(TransformerConfig(**sizes))
    else:
        model = RNNTranslator(RNNTranslatorConfig(**sizes))
    with torch.no_grad():  # like a trained one, it never writes what is no word
        for id in (*tokenizer.special_tokens.values(), tokenizer.unknown):
            if id is not None and id != tokenizer.end_of_text:
                model.head.bias[id] = -100.0
    return model


def translator(
    kind: str = "transformer", tokens: Any = "word", text: str = " ".join(WORDS), **more: Any
) -> TranslatePredictor:
    """`more` are keys of the preprocessing or of the model."""
    tokenizer = vocabulary(tokens, text)
    of_data = {key: more.pop(key) for key in PairPreprocessing.model_fields if key in more}
    preprocessing = PairPreprocessing(tokenizer=tokenizer, **of_data)
    return TranslatePredictor(random_model(kind, tokenizer, **more), preprocessing)


def sentences(count: int, longest: int = 9, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, longest))) for _ in range(count)]


@cache
def pupil(kind: str = "transformer") -> TranslatePredictor:
    """It has learned for a second to copy words, so that it is in two minds about most. In double
    precision: in single, every kind of processor would teach it something else."""
    predictor = translator(kind, context_length=64)
    pairs, model = predictor.preprocessing, predictor.model.double().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(40):
        texts = sentences(16, seed=step + 1)
        rows = [torch.tensor(ids) for ids in pairs.encode_target(texts)]
        ids = pad_sequence(rows, batch_first=True, padding_value=pairs.end)
        is_text = torch.arange(ids.size(1)) < torch.tensor([[len(row)] for row in rows])
        logits = model(ids[:, 1:], ids[:, :-1], is_text[:, 1:])  # the source has no start
        right = ids[:, 1:][is_text[:, 1:]]
        loss = torch.nn.functional.cross_entropy(logits[is_text[:, 1:]], right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.float().eval()
    return predictor


def writes(monkeypatch: pytest.MonkeyPatch, predictor: TranslatePredictor, *texts: str) -> None:
    """Let the search find the tokens of these texts, one for each sentence."""
    found = [[*ids] for ids in predictor.preprocessing.encode_target(texts)]
    monkeypatch.setattr(
        "glassformer.tasks.translate.scores.search_translations",
        lambda *_, **__: [[Hypothesis(tuple(ids[1:-1]), -1.0, -1.0, True)] for ids in found],
    )
