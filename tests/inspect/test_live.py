"""The model that a page carries computes what Python computes."""

import json
import random
import re
from collections.abc import Sequence
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_models import (
    BERT_PRESETS,
    BERTS,
    GPTS,
    NO_LIMIT,
    PRESETS,
    TRANSLATORS,
    in_chromium,
    in_page,
    made,
    needs_chromium,
    needs_node,
    packed,
    preprocessing_of,
)

from glassformer import inspect
from glassformer.errors import GlassformerError
from glassformer.inspect.capture import Capture, capturing, stacks_of
from glassformer.inspect.live import LIVE_SCRIPTS, live_or_error
from glassformer.inspect.page import embedded, part
from glassformer.models.rnn import RNNLanguageModel, RNNLanguageModelConfig
from glassformer.nn.observe import listening, without_heads

SOURCE, TARGET = [3, 1, 4, 15, 9, 2, 6], [5, 3, 5, 8, 9]
TINY = [*GPTS, *BERTS, *TRANSLATORS]
ALL = [*TINY, *PRESETS, *BERT_PRESETS]


def inputs_of(name: str) -> list[list[int]]:
    return [SOURCE, TARGET] if name in TRANSLATORS else [SOURCE]


def silent_of(name: str) -> list[list[Any]]:
    """A head of each stack, and one of cross-attention."""
    found: list[list[Any]] = [[stack, 1, 2] for stack in stacks_of(made(name))]
    return [*found, ["decoder", 0, 1, "cross"]] if name in TRANSLATORS else found


class InPython:
    """What Python sees of a call; `silent` as in the page."""

    def __init__(self, name: str, silent: Sequence[Sequence[Any]] = ()) -> None:
        model = made(name)
        stacks = stacks_of(model)
        off = {}
        for stack, layer, head, *kind in silent:
            block = stacks[stack][layer]
            off[(block.cross_attention if kind else block.attention).tap] = [head]
        crossing = [each.vectors for stack in stacks.values() for each in stack.cross_attentions]
        with torch.inference_mode(), ExitStack() as opened:
            opened.enter_context(without_heads(off))
            self.stacks: dict[str, Capture] = {
                key: opened.enter_context(capturing(each)) for key, each in stacks.items()
            }
            self.cross = opened.enter_context(listening(crossing, lambda each: each[0]))
            self.logits = model(*(torch.tensor([ids]) for ids in inputs_of(name)))[0].numpy()
        last = list(self.stacks.values())[-1]
        with torch.inference_mode():
            self.lens = model.read_out(torch.from_numpy(last.hidden[:, 0])).numpy()


def array(tensor: dict[str, Any]) -> np.ndarray:
    return np.array(tensor["data"], np.float32).reshape(tensor["shape"])


def agree(found: Any, expected: np.ndarray) -> None:
    found = np.asarray(found, np.float32)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-5


def same(seen: dict[str, Any], expected: InPython, is_causal: bool) -> None:
    agree(seen["logits"], expected.logits)
    agree(seen["lens"], expected.lens)
    assert list(seen["stacks"]) == list(expected.stacks)
    for name, stack in seen["stacks"].items():
        capture = expected.stacks[name]
        agree([array(each) for each in stack["hidden"]], capture.hidden)
        for kind in ("query", "key", "value"):
            many = {"query": "queries", "key": "keys", "value": "values"}[kind]
            agree([array(each[kind]) for each in stack["layers"]], getattr(capture, many))
        shape = capture.attention.shape
        agree(
            np.array([each["weights"] for each in stack["layers"]]).reshape(shape),
            capture.attention,
        )
        assert {each["causal"] for each in stack["layers"]} == {is_causal or name == "decoder"}
        if capture.cross_attention is not None:
            crossed = [each["cross"] for each in stack["layers"]]
            weights = np.array([each["weights"] for each in crossed])
            agree(weights.reshape(capture.cross_attention.shape), capture.cross_attention)
            for layer, heard in zip(crossed, expected.cross, strict=True):
                for kind, vectors in zip(("query", "key", "value"), heard, strict=True):
                    agree(array(layer[kind]), vectors.numpy())
        else:
            assert {each["cross"] is None for each in stack["layers"]} == {True}


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What the page sees of every model, whole and with heads switched off."""
    jobs = [
        (
            "traces",
            {"live": packed(name), "calls": [inputs_of(name), [*inputs_of(name), silent_of(name)]]},
        )
        for name in ALL
    ]
    return dict(zip(ALL, in_page(*jobs), strict=True))


@needs_node
@pytest.mark.parametrize("name", ALL)
def test_the_page_sees_the_numbers_that_python_sees(seen: dict[str, Any], name: str) -> None:
    same(seen[name][0], InPython(name), is_causal=name in GPTS | PRESETS)


@needs_node
@pytest.mark.parametrize("name", ALL)
def test_heads_that_are_switched_off_change_the_same_numbers(
    seen: dict[str, Any], name: str
) -> None:
    without = InPython(name, silent_of(name))
    same(seen[name][1], without, is_causal=name in GPTS | PRESETS)
    assert np.abs(without.logits - InPython(name).logits).max() > 1e-3


@needs_node
def test_relative_positions_are_a_bias_of_every_head(seen: dict[str, Any]) -> None:
    expected = made("relative").positions.bias(7, 7).detach().numpy()
    for layer in seen["relative"][0]["stacks"]["blocks"]["layers"]:
        agree(array(layer["bias"]), expected)
    assert seen["gpt2"][0]["stacks"]["blocks"]["layers"][0]["bias"] is None


# --- packed weights ---


@needs_node
@pytest.mark.parametrize(
    ("dtype", "most"), [("float32", 1e-5), ("int16", 1e-3), ("float16", 5e-3), ("int8", 0.2)]
)
def test_the_stamp_says_how_far_the_page_is_from_python(dtype: str, most: float) -> None:
    (found,) = in_page(("agreements", {"lives": [packed(name, dtype) for name in ALL]}))
    assert {each["dtype"] for each in found} == {dtype}
    far = {name: each["difference"] for name, each in zip(ALL, found, strict=True)}
    assert {name: gap for name, gap in far.items() if not gap < most} == {}
    assert max(far.values()) > most / 1e4  # it is measured, not assumed


@needs_node
def test_the_stamp_notices_a_wrong_weight() -> None:
    wrong = deepcopy(packed("gpt2"))
    wrong["weights"] = packed("relative")["weights"] | {
        "aliases": packed("gpt2")["weights"]["aliases"]
    }
    names = [name for name, _ in wrong["weights"]["parts"][0]["tensors"]]
    assert "blocks.0.attention.query.weight" in names
    wrong["config"] = packed("relative")["config"]
    wrong["check"] = packed("gpt2")["check"]
    ((found,),) = in_page(("agreements", {"lives": [wrong]}))
    assert found["difference"] > 0.1


def test_the_same_model_is_packed_in_the_same_bytes() -> None:
    model = made("modern")
    first, second = (
        json.dumps(live_or_error(deepcopy(model), preprocessing_of(model), NO_LIMIT)) for _ in "ab"
    )
    assert first == second


def test_int16_is_used_where_it_fits_then_int8_then_nothing() -> None:
    model = made("nano")
    preprocessing = preprocessing_of(model)

    num = sum(each.numel() for each in model.parameters())
    kinds = [
        live_or_error(model, preprocessing, size * num // 10)["weights"]["dtype"]
        for size in (30, 20)
    ]
    assert kinds == ["int16", "int8"]
    with pytest.raises(GlassformerError, match=r"too large for a page: its weights take .* int8"):
        live_or_error(model, preprocessing, num)


def test_weights_that_are_no_numbers_are_refused() -> None:
    model = deepcopy(made("gpt2"))
    with torch.no_grad():
        model.blocks[0].attention.query.weight[0, 0] = torch.nan
    with pytest.raises(GlassformerError, match="not a finite number"):
        live_or_error(model, preprocessing_of(model), NO_LIMIT)


@needs_node
@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "int8"])
def test_rows_of_zeros_and_outliers_survive(dtype: str) -> None:
    model = deepcopy(made("gpt2"))
    with torch.no_grad():
        model.blocks[0].attention.query.weight[0] = 0
        model.blocks[0].attention.key.weight[1, 1] = 40
    found = live_or_error(model, preprocessing_of(model), NO_LIMIT, dtype)  # type: ignore[arg-type]
    ((stamp,),) = in_page(("agreements", {"lives": [found]}))
    assert stamp["difference"] < {"float32": 1e-5, "int8": 0.5}.get(dtype, 2e-2)


def test_tied_weights_are_carried_once() -> None:
    weights = packed("gpt2")["weights"]
    names = [name for each in weights["parts"] for name, _ in each["tensors"]]
    assert weights["aliases"] == {"head.weight": "embedding.weight"}
    assert len(names) == len(set(names)) == len(list(made("gpt2").parameters()))


def test_packing_changes_nothing_in_the_model() -> None:
    model = made("translator").train()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    live_or_error(model, preprocessing_of(model), NO_LIMIT)
    assert model.training
    assert all(torch.equal(before[name], each) for name, each in model.eval().state_dict().items())


def test_a_model_without_blocks_cannot_run_in_a_page() -> None:
    model = RNNLanguageModel(
        RNNLanguageModelConfig(vocab_size=31, d_model=8, d_embedding=8, num_layers=1)
    )
    preprocessing = preprocessing_of(made("gpt2"))
    with pytest.raises(GlassformerError, match="an rnn-lm cannot run in a page"):
        live_or_error(model, preprocessing, NO_LIMIT)


# --- one call after another ---


def random_calls(name: str, count: int) -> list[list[Any]]:
    """As a reader would type: longer, shorter, changed in the middle, heads off and on again."""
    rng = random.Random(name)
    inputs, silent = inputs_of(name), list[list[Any]]()
    calls = []
    for _ in range(count):
        side = rng.choice(inputs)
        match rng.randrange(5):
            case 0 if len(side) < 12:
                side.append(rng.randrange(20))
            case 1 if len(side) > 1:
                del side[rng.randrange(len(side)) :][1:]
            case 2:
                side[rng.randrange(len(side))] = rng.randrange(20)
            case 3:
                silent = [] if silent else [rng.choice(silent_of(name))]
        calls.append(deepcopy([*inputs, silent]))
    return calls


@needs_node
def test_what_is_not_computed_again_is_what_it_would_be() -> None:
    names = ["gpt2", "modern", "relative", "bert", "translator", "modern translator"]
    jobs = [
        ("continued", {"live": packed(name), "calls": random_calls(name, 25)}) for name in names
    ]
    for found in in_page(*jobs):
        assert found == {"wrong": [None] * 25, "changed": [None] * 25}


@needs_node
def test_a_text_is_longer_than_the_context_or_wrong_in_another_way() -> None:
    calls = [[[]], [[0] * 13], [[31]], [[-1]], [[1.5]], [[1], [["blocks", 2, 0]]]]
    calls += [
        [[1], [["blocks", 1, 4]]],
        [[1], [["decoder", 0, 0]]],
        [[1], [["blocks", 0, 0, "cross"]]],
    ]
    (found,) = in_page(("failures", {"live": packed("gpt2"), "calls": [*calls, [[1]]]}))
    assert found == [
        "there are no tokens",
        "13 tokens do not fit in the model's context of 12",
        *("there is no token 31", "there is no token -1", "there is no token 1.5"),
        "there is no head blocks 2 0 ",
        "there is no head blocks 1 4 ",
        "there is no head decoder 0 0 ",
        "there is no head blocks 0 0 cross",
        None,
    ]


# --- in a page ---


@needs_node
def test_numbers_survive_the_rounding_of_a_page() -> None:
    """A page writes six digits of a number: whatever needs more must not be one."""
    names = [*TINY, "nano"]
    rounded = [json.loads(embedded(packed(name))) for name in names]
    (found,) = in_page(("agreements", {"lives": rounded}))
    assert all(each["difference"] < 1e-5 for each in found)


@needs_chromium
def test_chromium_computes_the_same_from_a_file_on_disk() -> None:
    names = ["nano", "modern", "modern bert", "two vocabularies"]
    call = [*inputs_of("two vocabularies"), silent_of("two vocabularies")]
    exact, rounded, traced = in_chromium(
        ("agreements", {"lives": [packed(name) for name in names]}),
        ("agreements", {"lives": [packed(name, "int16") for name in names]}),
        ("traces", {"live": packed("two vocabularies"), "calls": [call]}),
    )
    assert all(each["difference"] < 1e-5 for each in exact)
    assert all(each["difference"] < 1e-3 for each in rounded)
    same(traced[0], InPython("two vocabularies", call[-1]), is_causal=False)


def test_no_name_of_the_model_is_used_by_another_script() -> None:
    """The scripts of a page are one module: a name that is defined twice would break it."""
    folder = Path(inspect.__file__).parent / "static"
    others = [file for file in folder.rglob("*.js") if file.parent.name != "live"]
    defined = re.compile(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
    own = [name for each in LIVE_SCRIPTS for name in defined.findall(part(each))]
    assert len(own) == len(set(own)) > 40
    assert set(own).isdisjoint(
        name for file in others for name in defined.findall(file.read_text(encoding="utf-8"))
    )
    assert {f"live/{file.name}" for file in (folder / "live").iterdir()} == set(LIVE_SCRIPTS)


def test_the_scripts_of_the_model_ask_for_nothing_and_write_nothing() -> None:
    script = "\n".join(map(part, LIVE_SCRIPTS))
    assert not re.search(r"innerHTML|document|eval\(|new Function|fetch\(|import|https?://", script)
