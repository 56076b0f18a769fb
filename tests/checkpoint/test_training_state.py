"""A training state comes back bit for bit, or not at all."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassformer.checkpoint.training_state import load_state, save_state
from glassformer.errors import GlassformerError

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.uint8, torch.bool),
)
SHAPES = ((), (0,), (1,), (5,), (2, 0), (3, 2))


def same(left: Any, right: Any) -> bool:
    """Equal in type and value, tensors in every bit; NaN equals itself, and 0.0 is not -0.0."""
    if type(left) is not type(right):
        return False
    match left:
        case Tensor():
            alike = left.dtype == right.dtype and left.shape == right.shape
            return alike and bits(left) == bits(right)
        case dict():
            return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
        case list() | tuple():
            return len(left) == len(right) and all(map(same, left, right))
        case float():
            return repr(left) == repr(right)
    return bool(left == right)


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    shape = draw(st.sampled_from(SHAPES))
    numbers = draw(st.lists(st.integers(0, 9), min_size=6, max_size=6))
    count = int(torch.Size(shape).numel())
    tensor = torch.tensor(numbers[:count]).reshape(shape).to(draw(st.sampled_from(DTYPES)))
    return tensor.T if tensor.dim() == 2 and draw(st.booleans()) else tensor


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text()
    | tensors()
)
keys = st.integers() | st.text() | st.tuples(st.integers(), st.text())
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=12,
)


@given(state=st.dictionaries(keys, values, max_size=4))
def test_any_state_comes_back_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, state: dict[Any, Any]
) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-state"
    save_state(folder, state)
    assert same(load_state(folder), state)


def test_values_that_look_like_our_own_marks_come_back(tmp_path: Path) -> None:
    state = {"tensor": 0, "dict": [["a", 1]], "tuple": {"tuple": []}, "": {"tensor": torch.ones(2)}}
    save_state(tmp_path / "state", state)
    assert same(load_state(tmp_path / "state"), state)


def test_a_shared_tensor_is_stored_once_and_shared_again(tmp_path: Path) -> None:
    weight = torch.nn.Parameter(torch.ones(1000))
    save_state(tmp_path / "state", {"a": weight, "b": {"c": weight}, "d": torch.ones(1000)})
    again = load_state(tmp_path / "state")
    assert again["a"] is again["b"]["c"]
    assert again["d"] is not again["a"]
    assert (tmp_path / "state" / "state.safetensors").stat().st_size < 2.5 * 4000


def test_an_optimizer_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    def learn(model: torch.nn.Linear, optimizer: torch.optim.Optimizer) -> None:
        model(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()

    models = [torch.nn.Linear(3, 2) for _ in range(2)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1) for model in models]
    learn(models[0], optimizers[0])
    save_state(tmp_path / "s", {"m": models[0].state_dict(), "o": optimizers[0].state_dict()})
    state = load_state(tmp_path / "s")
    models[1].load_state_dict(state["m"])
    optimizers[1].load_state_dict(state["o"])
    for model, optimizer in zip(models, optimizers, strict=True):
        optimizer.zero_grad()
        learn(model, optimizer)
    assert torch.equal(models[0].weight, models[1].weight)


def test_equal_states_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_state(tmp_path / name, {"x": torch.arange(4), "y": [1.5, None]})
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_what_is_no_plain_value_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a function cannot be part"):
        save_state(tmp_path / "state", {"x": [tensors]})
    assert list(tmp_path.iterdir()) == []


# --- damage ---


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_state(tmp_path / "state", {"weights": torch.arange(8.0), "step": 3, "best": None})
    return tmp_path / "state"


@pytest.mark.parametrize("name", ["state.safetensors", "state.json", "manifest.json"])
def test_a_file_cut_short_anywhere_is_refused(saved: Path, name: str) -> None:
    whole = (saved / name).read_bytes()
    for length in range(len(whole)):
        (saved / name).write_bytes(whole[:length])
        with pytest.raises(GlassformerError, match="is damaged"):
            load_state(saved)


def test_any_changed_bit_of_the_manifest_is_found_or_harmless(saved: Path) -> None:
    expected, whole = load_state(saved), (saved / "manifest.json").read_bytes()
    for place in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        (saved / "manifest.json").write_bytes(changed)
        try:
            assert same(load_state(saved), expected)
        except GlassformerError:
            continue


@pytest.mark.parametrize("name", ["state.safetensors", "state.json"])
def test_any_changed_byte_is_found_and_the_file_is_named(saved: Path, name: str) -> None:
    whole, draw = (saved / name).read_bytes(), random.Random(0)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= draw.randrange(1, 256)
        (saved / name).write_bytes(changed)
        with pytest.raises(GlassformerError, match=f"{name} is damaged.*Delete .*state"):
            load_state(saved)


@pytest.mark.parametrize("manifest", [{}, [], None, 3, {"state.json": {}}, {"../x": {}}])
def test_a_manifest_that_says_too_little_is_refused(saved: Path, manifest: Any) -> None:
    (saved / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(GlassformerError, match="is damaged"):
        load_state(saved)


@pytest.mark.parametrize("name", ["state.safetensors", "state.json", "manifest.json"])
def test_a_missing_file_is_damage_too(saved: Path, name: str) -> None:
    (saved / name).unlink()
    with pytest.raises(GlassformerError, match=name):
        load_state(saved)


# --- a disk that fails ---


def test_a_failed_write_leaves_the_old_state_and_no_scraps(
    saved: Path, faults: Callable[[], Iterator[int]]
) -> None:
    old, new = load_state(saved), {"weights": torch.zeros(3), "step": 4}
    failed = 0
    for _ in faults():
        try:
            save_state(saved, new)
        except GlassformerError as error:
            failed += 1
            assert "state cannot be written: No space left on device" in str(error)  # noqa: PT017
        assert any(same(load_state(saved), state) for state in (old, new))
        assert [path.name for path in saved.parent.iterdir()] == ["state"]
    assert failed >= 8
    assert same(load_state(saved), new)


def test_a_failed_first_write_leaves_nothing(
    tmp_path: Path, faults: Callable[[], Iterator[int]]
) -> None:
    for _ in faults():
        try:
            save_state(tmp_path / "deep" / "state", {"step": 1})
        except GlassformerError:
            left = [path.name for path in tmp_path.rglob("*")]
            assert left in ([], ["deep"]) or same(
                load_state(tmp_path / "deep" / "state"), {"step": 1}
            )
    assert load_state(tmp_path / "deep" / "state") == {"step": 1}


def test_what_a_kill_left_half_written_is_written_over(saved: Path) -> None:
    for name in (".state.partial", ".state.old"):
        (saved.parent / name).mkdir()
        (saved.parent / name / "state.json").write_text("half")
    save_state(saved, {"step": 5})
    assert load_state(saved) == {"step": 5}
    assert [path.name for path in saved.parent.iterdir()] == ["state"]
