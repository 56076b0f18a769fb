"""What each part adds to a vector and to a logit: in Python and in the page, against torch's
gradients with the scales of all norms held."""

import base64
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from live_models import NO_LIMIT, in_page, needs_node
from page_families import LABELS, SHAPE, TEXT, WORDS, masked
from picture_models import captioner, multiscale, painter, picture, shaken, vit
from torch import Tensor, nn
from translators import translator

from glassformer.inspect import residual
from glassformer.inspect.inspection import Inspection, LinearReadOut
from glassformer.inspect.live import live_or_error
from glassformer.inspect.residual import ResidualStream, residual_data
from glassformer.inspect.story import absent, story_data
from glassformer.models.classifier import (
    Classifier,
    ClassifierConfig,
    GPTClassifier,
    GPTClassifierConfig,
    Tagger,
    TaggerConfig,
)
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn.blocks import Block
from glassformer.nn.layers import RMSNorm
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.classify.task import ClassifyPredictor
from glassformer.tasks.language.predictor import LanguagePredictor
from glassformer.tasks.tag.predictor import TagPredictor
from glassformer.text.tokenizer_training import train_tokenizer

MODERN: dict[str, Any] = {"positions": "rotary", "norm": "rms", "activation": "swiglu"}
PAPER: dict[str, Any] = {"pre_norm": False, "final_norm": False, "scale_embedding": True}


def gpt(**more: Any) -> Inspection:
    tokenizer = train_tokenizer("bpe", [TEXT] * 3, 280)
    model = GPT(GPTConfig(**SHAPE | {"vocab_size": tokenizer.vocab_size} | more))
    preprocessing = TextPreprocessing(tokenizer=tokenizer, is_causal=True)
    return LanguagePredictor(shaken(model), preprocessing).inspect("a bad day, said")


def labels(predictor: Any, model: Any, config: Any, **more: Any) -> Inspection:
    tokenizer = train_tokenizer("word", [WORDS] * 3)
    size = {"vocab_size": tokenizer.vocab_size}
    made = shaken(model(config(**SHAPE | LABELS | size | more)))
    made.temperature.fill_(1.7)
    if getattr(made, "idf_pooling", None) is not None:
        made.idf_pooling.idf.uniform_(1, 3)
    seen: Inspection = predictor(made, TextPreprocessing(tokenizer=tokenizer)).inspect(WORDS)
    return seen


MODELS = {
    "gpt": gpt,
    "modern": lambda: gpt(**MODERN, num_kv_heads=2, bias=False, tie_weights=False),
    "post-norm": lambda: gpt(pre_norm=False, positions="sinusoidal", output_bias=True),
    "post-norm without a final norm": lambda: gpt(pre_norm=False, final_norm=False, norm="rms"),
    "narrow": lambda: gpt(d_embedding=9, tie_weights=False, activation="quick_gelu"),
    "translator": lambda: translator().inspect("one two three", target="two one"),
    "paper": lambda: translator(**PAPER).inspect("one two three", target="two one"),
    "tagger": lambda: labels(TagPredictor, Tagger, TaggerConfig),
    "mean": lambda: labels(ClassifyPredictor, Classifier, ClassifierConfig, pooling="mean"),
    "idf": lambda: labels(ClassifyPredictor, Classifier, ClassifierConfig, pooling="idf"),
    "first": lambda: labels(ClassifyPredictor, Classifier, ClassifierConfig, pooling="first"),
    "last": lambda: labels(ClassifyPredictor, GPTClassifier, GPTClassifierConfig),
}
OF_IMAGES = {
    "vit": lambda: vit().inspect(picture()),
    "vit, mean": lambda: vit(pooling="mean").inspect(picture()),
    "vit, sequence": lambda: vit(pooling="sequence").inspect(picture()),
    "image-gpt": lambda: painter().inspect(picture(3, 4)),
    "captioner": lambda: captioner().inspect(picture(), target="a red cat on"),
}


@cache
def inspected(name: str) -> Inspection:
    return (MODELS | OF_IMAGES)[name]()


def array(packed: dict[str, Any]) -> Any:
    raw = base64.b64decode(packed["data"])
    return np.frombuffer(raw, packed["dtype"]).reshape(packed["shape"]).astype(np.float64)


def outputs(seen: Inspection) -> Tensor:
    """The likeliest outputs of each prediction, and the right one: (P, O)."""
    best = seen.logprobs.topk(min(10, seen.logits.shape[1])).indices
    actual = [b if a is None else a for a, b in zip(seen.subject.actual, best[:, 0], strict=True)]
    return torch.cat([best, torch.tensor(actual)[:, None]], dim=1)


def in_torch(seen: Inspection, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What each part of the blocks adds to these logits, (P, O, N): their gradient with respect to
    a factor of the part, from which only sums and norms of a fixed scale follow."""
    blocks = list(seen.stream.stack or ())
    factors: list[Tensor] = []

    def held(self: Any, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True) if isinstance(self, nn.LayerNorm) else x
        scale = (centred.square().mean(-1, keepdim=True) + self.eps).sqrt().detach()
        y = centred / scale * self.weight
        return y if getattr(self, "bias", None) is None else y + self.bias

    def added(self: Block, x: Tensor, layer: Any, norm: nn.Module) -> Tensor:
        change = layer(norm(x) if self.pre_norm else x).detach()
        if self in blocks:
            factors.append(torch.ones((), dtype=change.dtype, requires_grad=True))
            change = change * factors[-1]
        return x + change if self.pre_norm else norm(x + change)

    with monkeypatch.context() as patched:
        patched.setattr(nn.LayerNorm, "forward", held)
        patched.setattr(RMSNorm, "forward", held)
        patched.setattr(Block, "_add", added)
        patched.setattr(Tensor, "softmax", lambda x, dim: torch.softmax(x, dim).detach())  # shares
        logits = seen.subject.run()
        assert np.allclose(logits.detach(), seen.logits, atol=1e-4)
        rows = []
        for at, ids in enumerate(outputs(seen).tolist()):
            rows.append(
                [torch.autograd.grad(logits[at, id], factors, retain_graph=True) for id in ids]
            )
    return np.array(rows, dtype=np.float64)


@pytest.mark.parametrize("name", [*MODELS, *OF_IMAGES])
def test_the_parts_of_a_logit_are_those_of_torch_and_sum_to_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = inspected(name)
    data = residual_data(seen, is_live=False)
    assert data is not None
    values = array(data["logits"]["values"])  # (P, O, N + 1)
    wanted = np.take_along_axis(seen.logits, outputs(seen).numpy(), 1)
    assert np.abs(values.sum(-1) - wanted).max() < 1e-4
    first = next(n for n, (_, layer) in enumerate(data["parts"]) if layer is not None)
    assert np.abs(values[..., first:-1] - in_torch(seen, monkeypatch)).max() < 1e-4


@torch.no_grad()
@pytest.mark.parametrize("name", ["gpt", "modern", "paper", "idf", "vit"])
def test_what_hidden_units_push_for_sums_to_what_their_layer_adds(name: str) -> None:
    seen = inspected(name)
    linear = seen.subject.linear
    assert isinstance(linear, LinearReadOut)
    stream, tokens = ResidualStream(seen), range(len(seen.tokens))
    rows = torch.arange(seen.logits.shape[1]).expand(len(tokens), -1)
    parts = stream.parts_of_logits(linear, rows, tokens)
    for layer, block in enumerate(stream.blocks):
        feed, x = block.feedforward, stream.inputs[layer].float()
        x = block.feedforward_norm(x) if block.pre_norm else x
        hidden = feed.up(x)
        hidden = (
            feed.activation(hidden) if feed.gate is None else feed.activation(feed.gate(x)) * hidden
        )
        vectors = feed.down.weight.T * hidden[..., None]  # (T, F, D)
        if feed.down.bias is not None:
            vectors = torch.cat([vectors, feed.down.bias.expand(len(tokens), 1, -1)], dim=1)
        pushed = stream.pushes(linear, layer, vectors.double(), tokens).sum(1)  # (T, C)
        place = [(part.kind, part.layer) for part in stream.additions].index(("feedforward", layer))
        pushed = pushed.sum(0, keepdim=True) if stream.shares is not None else pushed
        assert (pushed - parts[..., place]).abs().max() < 1e-4


@pytest.mark.parametrize("name", ["gpt", "post-norm", "mean", "image-gpt"])
def test_a_large_page_has_the_logits_and_the_units_of_one_token(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = inspected(name)
    whole = residual_data(seen, is_live=False)
    rows_of: list[int] = []
    compute = ResidualStream.parts_of_logits

    def counted(self: Any, linear: Any, rows: Tensor, tokens: Any) -> Tensor:
        rows_of.append(len(rows))
        return compute(self, linear, rows, tokens)

    monkeypatch.setattr(ResidualStream, "parts_of_logits", counted)
    monkeypatch.setattr(residual, "MOST_DIRECTIONS", 0)
    monkeypatch.setattr(residual, "MOST_UNITS", 0)
    small = residual_data(seen, is_live=False)
    assert whole is not None
    assert small is not None
    focus = seen.subject.focus % len(seen.logits)
    assert rows_of == [len(seen.tokens) if seen.subject.predicts == "whole" else 1]
    assert small["logits"]["at"] == [focus]
    for key in ("values", "logits"):
        expected = array(whole["logits"][key])[[focus]]
        assert np.allclose(array(small["logits"][key]), expected, atol=1e-6)
    (token,) = small["units"]["tokens"]
    assert seen.subject.predicts == "whole" or token == focus
    expected = array(whole["units"]["before"])[:, [token]]
    assert np.allclose(array(small["units"]["before"]), expected, atol=1e-5)


@needs_node
@pytest.mark.parametrize("name", MODELS)
def test_the_page_computes_what_python_computes(name: str) -> None:
    seen = inspected(name)
    subject = seen.subject
    data = residual_data(seen, is_live=False)
    assert data is not None
    live = live_or_error(subject.module, subject.preprocessing, NO_LIMIT, "float32")  # type: ignore[arg-type]
    job = {
        "live": live,
        "inputs": [stream.ids for stream in subject.streams],
        "rows": outputs(seen).tolist(),
        "units": list(data["units"]["pushes"]),
    }
    (found,) = in_page(("residual", job))
    values = array(data["logits"]["values"])
    assert np.abs(np.array(found["logits"]) - values).max() < 1e-4
    assert np.abs(values.sum(-1) - np.array(found["wanted"])).max() < 1e-4
    for t, parts in enumerate(found["added"]):
        assert [each["part"] for each in parts] == data["parts"]
        for key in ("length", "cosine", "after"):
            assert np.allclose([each[key] for each in parts], array(data[key])[:, t], atol=1e-4)
    units = data["units"]
    for pushed, (up, down) in zip(found["pushed"], units["pushes"].values(), strict=True):
        assert np.allclose(pushed, [up[0][1], down[0][1]], atol=1e-4)
    for layer, row in enumerate(found["units"]):
        for t, each in enumerate(row):
            assert np.allclose(each["before"], array(units["before"])[layer, t], atol=1e-4)
            assert np.allclose(each["lengths"], array(units["lengths"])[layer], atol=1e-4)
            if units["gates"] is not None:
                assert np.allclose(each["gates"], array(units["gates"])[layer, t], atol=1e-4)


def test_a_model_whose_logits_are_no_sum_says_why() -> None:
    def why(seen: Inspection) -> str:
        return str(story_data(seen, without={"live"})["residual"]["why"])

    assert "not linear" in why(masked().inspect("one [MASK] three"))
    assert "predicts nothing" in why(masked(has_head=False).inspect("one two"))
    pooled = labels(ClassifyPredictor, Classifier, ClassifierConfig, pooling="max")
    assert "max pooling" in why(pooled)
    pooler = labels(ClassifyPredictor, Classifier, ClassifierConfig, pooler=True)
    assert "not linear" in why(pooler)
    both = labels(ClassifyPredictor, Classifier, ClassifierConfig, bag=True)
    assert "bag" in why(both)


def test_a_model_without_a_residual_stream_says_so() -> None:
    for seen in (translator("rnn").inspect("one two"), multiscale().inspect(picture())):
        assert story_data(seen)["residual"] is None
        assert "residual stream" in absent(seen)
