"""Attributions equal what their definitions say, computed in another way."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.func import functional_call

from glassformer.errors import UsageError
from glassformer.inspect.attribution import Attribution, attributions, rank_correlation
from glassformer.inspect.capture import stacks_of
from glassformer.inspect.inspection import Inspection, Stream, Subject
from glassformer.inspect.places import rolled_out
from glassformer.models.bert import Bert, BertConfig
from glassformer.models.classifier import Classifier, ClassifierConfig, Tagger, TaggerConfig
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.rnn import RNNLanguageModel, RNNLanguageModelConfig
from glassformer.models.rnn_seq2seq import RNNTranslator, RNNTranslatorConfig
from glassformer.models.transformer import Transformer, TransformerConfig
from glassformer.nn.attention import weights_of
from glassformer.nn.observe import changing

TINY: dict[str, Any] = {"num_layers": 2, "d_model": 8, "num_heads": 2, "context_length": 12}
MODERN = {"positions": "rotary", "norm": "rms", "qk_norm": True, "bias": False}
SOURCE, TARGET = [3, 1, 4, 1, 5], [2, 6, 3]
RECURRENT = {"vocab_size": 10, "d_embedding": 6, "d_model": 8, "num_layers": 1}


def random_weights(model: nn.Module) -> Any:
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return model.double().eval()


def stream(model: nn.Module, name: str, ids: list[int], stack: str, table: str, **more: Any) -> Any:
    found = dict(model.named_modules())
    blocks = stacks_of(model).get(stack)
    return Stream(name, [str(id) for id in ids], ids, blocks, embedding=found[table], **more)


def subject(model: Any, streams: list[Stream], predicts: Any = "next", **more: Any) -> Subject:
    rows = [torch.tensor([each.ids]) for each in streams]

    def run_rows() -> Tensor:
        logits = model(*rows)
        return logits[:, None] if logits.dim() == 2 else logits

    return Subject(
        model="tiny",
        text="text",
        streams=tuple(streams),
        run=lambda: run_rows()[0],
        run_rows=run_rows,
        name_of=str,
        predicts=predicts,
        actual=[None] * len(streams[-1].ids),
        **more,
    )


def gpt(**more: Any) -> tuple[Any, Subject]:
    model = random_weights(GPT(GPTConfig(vocab_size=10, **TINY | more)))
    return model, subject(model, [stream(model, "text", SOURCE, "blocks", "embedding")])


def translator(**more: Any) -> tuple[Any, Subject]:
    model = random_weights(Transformer(TransformerConfig(vocab_size=10, **TINY | more)))
    table = "target_embedding" if "target_vocab_size" in more else "embedding"
    read = stream(model, "source", SOURCE, "encoder", "embedding")
    wrote = stream(model, "target", TARGET, "decoder", table, memory="source")
    return model, subject(model, [read, wrote])


def labels(kind: Any, config: Any, **more: Any) -> tuple[Any, Subject]:
    model = random_weights(kind(config(vocab_size=10, labels=("a", "b", "c"), **TINY | more)))
    text = stream(model, "text", SOURCE, "encoder.blocks", "encoder.embedding")
    several = more.get("multi_label", False)
    predicts = "same" if kind is Tagger else "whole"
    return model, subject(model, [text], predicts, has_several_labels=several, focus=0)


def bert() -> tuple[Any, Subject]:
    model = random_weights(Bert(BertConfig(vocab_size=10, **TINY)))
    text = stream(model, "text", SOURCE, "encoder.blocks", "encoder.embedding")
    return model, subject(model, [text], "same")


def recurrent() -> tuple[Any, Subject]:
    model = random_weights(RNNLanguageModel(RNNLanguageModelConfig(**RECURRENT)))
    return model, subject(model, [stream(model, "text", SOURCE, "", "embedding")])


def recurrent_translator() -> tuple[Any, Subject]:
    model = random_weights(RNNTranslator(RNNTranslatorConfig(**RECURRENT)))
    read = stream(model, "source", SOURCE, "", "embedding")
    wrote = stream(model, "target", TARGET, "", "embedding", memory="source")
    return model, subject(model, [read, wrote])


SUBJECTS = {
    "gpt": gpt,
    "modern gpt": lambda: gpt(**MODERN, num_kv_heads=1),
    "relative": lambda: gpt(positions="relative"),
    "narrow": lambda: gpt(d_embedding=5, tie_weights=False),
    "bert": bert,
    "translator": translator,
    "two vocabularies": lambda: translator(target_vocab_size=9),
    "classifier": lambda: labels(Classifier, ClassifierConfig),
    "idf": lambda: labels(Classifier, ClassifierConfig, pooling="idf"),
    "several labels": lambda: labels(Classifier, ClassifierConfig, multi_label=True),
    "tagger": lambda: labels(Tagger, TaggerConfig),
    "recurrent": recurrent,
    "recurrent translator": recurrent_translator,
}


def f_of(model: Any, about: Subject, found: Attribution, vectors: list[Tensor]) -> Tensor:
    """f by swapping the tables of the model: row t of a table is the vector of token t."""
    tables, rows, first = {}, [], 0
    names = [
        next(name for name, each in model.named_modules() if each is one.embedding)
        for one in about.streams
    ]
    for name, own in zip(names, vectors, strict=True):
        first = len(tables[f"{name}.weight"]) if f"{name}.weight" in tables else 0
        known = [tables[f"{name}.weight"]] if first else []
        tables[f"{name}.weight"] = torch.cat([*known, own])
        rows.append(torch.arange(first, first + len(own))[None])
    if isinstance(model, Classifier) and model.idf_pooling is not None:
        tables["idf_pooling.idf"] = model.idf_pooling.idf[about.streams[0].ids]
    logits = functional_call(model, tables, tuple(rows), tie_weights=False)[0]
    logits = logits if logits.dim() == 2 else logits[None]
    if about.has_several_labels:
        return nn.functional.logsigmoid(logits)[found.prediction, int(found.token)]
    return logits.log_softmax(-1)[found.prediction, int(found.token)]


def ends(about: Subject) -> tuple[list[Tensor], list[Tensor]]:
    """The vectors of the tokens, and those of the baseline."""
    tables = [each.embedding.weight.detach() for each in about.streams if each.embedding]
    x = [table[each.ids] for table, each in zip(tables, about.streams, strict=True)]
    b = [table.mean(0).expand_as(own) for table, own in zip(tables, x, strict=True)]
    return x, b


@pytest.mark.parametrize("name", SUBJECTS)
def test_integrated_gradients_are_the_riemann_sum_of_the_gradients(name: str) -> None:
    model, about = SUBJECTS[name]()
    (found,) = attributions(Inspection(about))
    x, b = ends(about)
    total = np.zeros(sum(len(each.ids) for each in about.streams))
    steps = 150
    for step in range(steps):
        # Midpoints of t, with α = t²: many places near the baseline, where f changes fast.
        t = (step + 0.5) / steps
        way = [(low + t**2 * (high - low)).requires_grad_() for low, high in zip(b, x, strict=True)]
        gradients = torch.autograd.grad(f_of(model, about, found, way), way)
        parts = [
            ((high - low) * each).sum(-1) for high, low, each in zip(x, b, gradients, strict=True)
        ]
        total += 2 * t / steps * torch.cat(parts).detach().numpy()
    assert found.integrated_gradients == pytest.approx(total, abs=5e-3)
    with torch.no_grad():
        difference = float(f_of(model, about, found, x) - f_of(model, about, found, b))
    assert found.logprob - found.baseline_logprob == pytest.approx(difference, abs=1e-8)
    assert abs(found.error) < 2e-3 * max(1, abs(difference))
    assert found.error == pytest.approx(found.integrated_gradients.sum() - difference, abs=1e-8)


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_token_that_is_left_out_is_replaced_by_the_baseline(name: str) -> None:
    model, about = SUBJECTS[name]()
    (found,) = attributions(Inspection(about))
    x, b = ends(about)
    expected = []
    with torch.no_grad():
        for number, own in enumerate(x):
            for place in range(len(own)):
                changed = [each.clone() for each in x]
                changed[number][place] = b[number][place]
                expected.append(found.logprob - float(f_of(model, about, found, changed)))
    assert found.left_out == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("more", [{}, MODERN | {"num_kv_heads": 1}, {"positions": "relative"}])
def test_attention_times_gradient_is_the_derivative_of_the_explicit_equation(
    more: dict[str, Any],
) -> None:
    model, about = gpt(num_layers=1, **more)
    (found,) = attributions(Inspection(about))
    block = model.blocks[0]
    layer = block.attention
    with torch.no_grad():
        x, rules = model.positions.causal(model.embedding(torch.tensor([SOURCE])))
        query, key, value = (
            each.unflatten(-1, (-1, layer.head_dim)).transpose(1, 2)
            for each in (
                part(block.attention_norm(x)) for part in (layer.query, layer.key, layer.value)
            )
        )
        query, key = layer.query_norm(query), layer.key_norm(key)
        if rules.rotate is not None:
            query, key = rules.rotate(query), rules.rotate(key)
        past = torch.ones(5, 5, dtype=torch.bool).tril()
        weights = weights_of(query, key, past, rules.bias)
    weights.requires_grad_()
    heads = weights @ value.repeat_interleave(2 // value.size(1), dim=1)
    y = x + layer.output(heads.transpose(1, 2).flatten(2))
    y = y + block.feedforward(block.feedforward_norm(y))
    f = model.read_out(y)[0, -1].log_softmax(-1)[int(found.token)]
    (gradient,) = torch.autograd.grad(f, weights)
    expected = (weights * gradient).sum(2).detach().numpy()  # (1, H, S)
    assert found.heads is not None
    assert found.heads["text"] == pytest.approx(expected, abs=1e-10)
    assert found.attention_gradient == pytest.approx(expected.sum((0, 1)), abs=1e-10)
    assert found.attention == pytest.approx(weights[0, :, -1].mean(0).detach().numpy(), abs=1e-6)


def test_attention_times_gradient_of_a_head_is_the_slope_of_its_volume() -> None:
    """All weights of a head, scaled together: d f / d scale at 1, of every kind of head."""
    model, about = translator()
    (found,) = attributions(Inspection(about))
    assert found.heads is not None
    kinds = {
        "source": model.encoder.attentions,
        "target": model.decoder.attentions,
        "cross": model.decoder.cross_attentions,
    }
    assert list(found.heads) == ["source", "target", "cross"]
    for name, layers in kinds.items():
        for number, layer in enumerate(layers):
            for head in range(2):

                def f(volume: float, layer: Any = layer, head: int = head) -> float:
                    factor = torch.ones(1, 2, 1, 1, dtype=torch.float64)
                    factor[0, head] = volume
                    with torch.no_grad(), changing({layer.tap: lambda each: each * factor}):
                        return float(about.run()[-1].log_softmax(-1)[int(found.token)])

                slope = (f(1 + 1e-5) - f(1 - 1e-5)) / 2e-5
                assert found.heads[name][number, head].sum() == pytest.approx(slope, abs=1e-6)
    source, target = np.split(found.attention_gradient, [len(SOURCE)])  # type: ignore[arg-type]
    both = found.heads["source"].sum((0, 1)) + found.heads["cross"].sum((0, 1))
    assert source == pytest.approx(both)
    assert target == pytest.approx(found.heads["target"].sum((0, 1)))


@pytest.mark.parametrize("name", ["gpt", "bert", "translator"])
def test_looking_changes_no_output_and_leaves_nothing_behind(name: str) -> None:
    model, about = SUBJECTS[name]()
    with torch.inference_mode():
        before = about.run()
    attributions(Inspection(about))
    with torch.inference_mode():
        assert torch.equal(about.run(), before)
    assert all(parameter.grad is None for parameter in model.parameters())
    taps = [each.tap for stack in stacks_of(model).values() for each in stack.attentions]
    with torch.inference_mode(), changing({tap: lambda weights: weights for tap in taps}):
        assert torch.allclose(about.run(), before, atol=1e-12)


def test_every_prediction_has_its_own_and_later_tokens_count_nothing() -> None:
    _, about = gpt()
    seen = Inspection(about)
    every = attributions(seen, range(5))
    assert [each.prediction for each in every] == [0, 1, 2, 3, 4]
    for number, each in enumerate(every):
        assert each.is_read.tolist() == [place <= number for place in range(5)]
        for values in each.methods.values():
            assert np.abs(values[number + 1 :]).max(initial=0) < 1e-12
        (alone,) = attributions(seen, [number])
        assert np.array_equal(each.integrated_gradients, alone.integrated_gradients)
        assert each.num_steps == alone.num_steps
    assert attributions(seen, [-1])[0].prediction == 4


def test_rollout_follows_the_attention_through_all_layers() -> None:
    _, about = gpt(num_layers=3)
    seen = Inspection(about)
    (found,) = attributions(seen)
    mixed = np.eye(5)
    for layer in seen.attention.mean(1):
        mixed = (layer + np.eye(5)) / 2 @ mixed
    assert found.rollout == pytest.approx(mixed[-1], abs=1e-6)
    (both,) = attributions(Inspection(translator()[1]))
    assert both.rollout is not None
    assert both.rollout.sum() == pytest.approx(1)
    assert (both.rollout > 0).all()
    # One layer: half of the prediction is taken from the source, a quarter from itself.
    own, memory = rolled_out(np.array([0, 1.0]), np.eye(2)[None], np.array([[[1, 0.0], [0, 1]]]))
    assert own.tolist() == [0, 0.5]
    assert memory is not None
    assert memory.tolist() == [0, 0.5]


def test_a_label_of_the_whole_text_is_read_from_all_positions_or_from_some() -> None:
    model, about = labels(Classifier, ClassifierConfig)
    weights = Inspection(about).attention.mean((0, 1))
    (found,) = attributions(Inspection(about))
    assert found.attention == pytest.approx(weights.mean(0), abs=1e-6)
    text = about.streams[0]
    first = subject(model, [text], "whole", focus=0, read_at=[0])
    (found,) = attributions(Inspection(first))
    assert found.attention == pytest.approx(weights[0], abs=1e-6)


def test_without_layers_there_are_only_the_opinions_that_need_none() -> None:
    (found,) = attributions(Inspection(recurrent()[1]))
    assert list(found.methods) == ["integrated_gradients", "left_out"]
    assert len(found.correlations) == 1


def test_ranks_are_compared_as_spearman_does() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 5, 9).astype(float), rng.random(9)
        assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation(b, 2 * b + 1) == pytest.approx(1)
    assert rank_correlation(b, -b) == pytest.approx(-1)
    assert rank_correlation(np.ones(4), np.arange(4.0)) is None
    assert rank_correlation(np.ones(2), np.arange(2.0)) is None


def test_ten_pairs_of_five_methods_are_compared_by_size() -> None:
    (found,) = attributions(Inspection(gpt()[1]))
    assert len(found.correlations) == math.comb(5, 2)
    a, b = np.abs(found.integrated_gradients), np.abs(found.left_out)
    assert found.correlations["integrated_gradients", "left_out"] == pytest.approx(
        spearmanr(a, b).statistic
    )


def test_a_model_without_vectors_of_tokens_in_a_row_is_refused() -> None:
    _, about = gpt()
    bare = Stream("text", ["a"], [1])
    other = Subject("bag", "a", (bare,), about.run, str, "whole", [None], run_rows=about.run_rows)
    with pytest.raises(UsageError, match="bag does not read tokens only as a sequence"):
        attributions(Inspection(other))
