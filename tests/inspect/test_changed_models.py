"""A model in the page with one part changed computes what it computes in torch with that part
changed, and its steps take the multiplications that they take in torch."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
from live_models import GPTS, TRANSLATORS, in_page, made, needs_node, packed
from test_live import inputs_of
from test_live_labels import packed as packed_labels
from test_live_labels import predictor
from torch import nn

from glassformer.inspect.capture import capturing, stacks_of
from glassformer.nn import attention
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.observe import listening
from glassformer.nn.positions import Positions

CHANGES = ("unscaled", "unpositioned", "unmasked")
PAGES = [*GPTS, "bert", "modern bert", "translator", "two vocabularies", "modern translator"]
LABELS = ["mean", "tagger", "gpt last", "gpt mean"]


@contextmanager
def changed(model: nn.Module, changes: tuple[str, ...]) -> Iterator[Any]:
    """A copy of the model with these parts changed, while the context is open."""
    model = deepcopy(model)
    for name, module in list(model.named_modules()):
        if isinstance(module, Positions):
            if "unpositioned" in changes:
                module = Positions()
                model.set_submodule(name, module)
            if "unmasked" in changes:
                setattr(module, "causal", partial(_both_ways, module))  # noqa: B010
    with pytest.MonkeyPatch.context() as patch:
        if "unscaled" in changes:
            for each in ("weights_of", "explicit", "fused"):
                patch.setattr(attention, each, _times_root(getattr(attention, each)))
        yield model


def _both_ways(positions: Positions, x: torch.Tensor, cache: Any = None) -> Any:
    return positions.both_ways(x)


def _times_root(compute: Any) -> Any:
    """The same for queries that are √d times as long, which divides nothing."""
    if compute.__name__ == "explicit":  # calls `weights_of`, which is changed already
        return compute
    return lambda query, *more, **named: compute(query * sqrt(query.size(-1)), *more, **named)


def with_changes(name: str) -> list[tuple[str, ...]]:
    """Those that this model can have, and all together."""
    found = [(each,) for each in CHANGES if each != "unmasked" or not name.endswith("bert")]
    return [*found, CHANGES]


def agree(found: Any, expected: np.ndarray) -> None:
    found = np.asarray(found, np.float32).reshape(expected.shape)
    assert np.abs(found - expected).max() < 1e-4


@needs_node
@pytest.mark.parametrize("name", PAGES)
def test_a_changed_model_computes_what_torch_computes_with_that_change(name: str) -> None:
    every = with_changes(name)
    calls = [[*inputs_of(name), [], list(changes)] for changes in every]
    (whole, *found) = in_page(
        ("traces", {"live": packed(name), "calls": [inputs_of(name), *calls, inputs_of(name)]})
    )[0]
    assert found.pop() == whole  # and nothing of it remains
    for changes, seen in zip(every, found, strict=True):
        with changed(made(name), changes) as model, torch.inference_mode():
            (last,) = list(stacks_of(model).values())[-1:]
            with capturing(last) as capture:
                logits = model(*(torch.tensor([ids]) for ids in inputs_of(name)))[0].numpy()
        agree(seen["logits"], logits)
        (stack,) = list(seen["stacks"].values())[-1:]
        weights = np.array([layer["weights"] for layer in stack["layers"]])
        agree(weights, capture.attention)
        assert (seen["logits"] != whole["logits"]) == (
            changes != ("unpositioned",) or name != "no positions"
        )


@needs_node
@pytest.mark.parametrize("name", LABELS)
def test_a_changed_labeller_computes_what_torch_computes(name: str) -> None:
    ids, every = [3, 1, 4, 1, 5], [*[(each,) for each in CHANGES], CHANGES]
    calls = [[ids, [], list(changes)] for changes in every]
    (found,) = in_page(("logits", {"live": packed_labels(name), "calls": calls}))
    for changes, logits in zip(every, found, strict=True):
        with changed(predictor(name).model, changes) as model, torch.inference_mode():
            agree(logits, model(torch.tensor([ids])).numpy())


@needs_node
def test_a_classifier_without_positions_reads_a_bag() -> None:
    ids, shuffled = [3, 1, 4, 2, 5], [5, 4, 3, 2, 1]
    calls = [[row, [], changes] for changes in ([], ["unpositioned"]) for row in (ids, shuffled)]
    (found,) = in_page(("logits", {"live": packed_labels("mean"), "calls": calls}))
    ordered, other, bag, same = (np.array(each) for each in found)
    assert np.abs(ordered - other).max() > 1e-3
    assert np.abs(bag - same).max() < 1e-6


# --- the cache ---


class Counting:
    """The multiplications of a call in torch, from the shapes that its layers see."""

    def __init__(self, model: nn.Module, head: nn.Module) -> None:
        self.model, self.head = model, head

    @contextmanager
    def __call__(self) -> Iterator[dict[str, int]]:
        count = dict.fromkeys(("weights", "scores", "values", "logits"), 0)
        hooks, taps = [], []
        for name, module in self.model.named_modules():
            if name.startswith("encoder."):
                continue
            if isinstance(module, nn.Linear):
                kind = "logits" if module is self.head else "weights"

                def add(own: Any, given: Any, out: Any, kind: str = kind) -> None:
                    count[kind] += given[0].numel() * out.size(-1)

                hooks.append(module.register_forward_hook(add))
            elif isinstance(module, MultiHeadAttention):
                taps.append((module.vectors, not name.endswith("cross_attention")))
        with listening([tap for tap, _ in taps]) as heard:
            yield count
        for hook in hooks:
            hook.remove()
        for vectors, (_, is_causal) in zip(heard, taps, strict=True):
            query, key, _ = vectors
            queries, keys = query.size(2), key.size(2)
            hidden = queries * (queries - 1) // 2 if is_causal else 0
            for kind in ("scores", "values"):
                count[kind] += query.size(1) * query.size(3) * (queries * keys - hidden)


@needs_node
@pytest.mark.parametrize("name", [*GPTS, *TRANSLATORS])
def test_the_steps_of_the_page_take_the_multiplications_of_torch(name: str) -> None:
    *source, ids = inputs_of(name)
    (found,) = in_page(("costs", {"live": packed(name), "inputs": [*source, ids], "silent": []}))
    model = made(name)
    counting = Counting(model, model.head)
    padding = torch.zeros(1, dtype=torch.long)
    with torch.inference_mode():
        state = None
        for number, costs in enumerate(found):
            with counting() as kept:
                if state is None:
                    memory = model.encode(torch.tensor(source)) if source else None
                    state = model.start(memory, padding, len(ids))
                _, state = model.step(torch.tensor([[ids[number]]]), state)
            with counting() as anew:
                memory = model.encode(torch.tensor(source)) if source else None
                model.step(
                    torch.tensor([ids[: number + 1]]), model.start(memory, padding, len(ids))
                )
            assert costs == {"kept": kept, "anew": anew}
    assert len(found) == len(ids)
    totals = [sum(each["kept"].values()) for each in found]
    assert len(set(np.diff(totals[1:]))) == 1  # one more key for each token
