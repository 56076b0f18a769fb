"""What a model asks for is counted without building it."""

from typing import Any

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from glassformer.config import parse
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import row
from glassformer.nn.loss import next_token_loss
from glassformer.planning.estimate import workload
from glassformer.planning.plan import plan

SMALL: dict[str, Any] = {"d_model": 32, "num_heads": 2, "context_length": 16, "vocab_size": 50}


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_the_published_sizes(preset: str, parameters: int) -> None:
    found = workload("gpt", preset, {}, "bfloat16")
    assert found.parameters == parameters
    # 6 operations per parameter and token, less the table of positions, and attention.
    positions = 1024 * found.width
    products = 6 * (parameters - positions)
    assert found.flops_per_token * (1 - found.attention_share) == pytest.approx(products, rel=2e-3)
    attention = 12 * found.layers * found.width * found.context
    assert found.flops_per_token * found.attention_share == pytest.approx(attention)


@pytest.mark.parametrize("settings", [{}, {"positions": "rotary", "norm": "rms", "bias": False}])
@pytest.mark.parametrize(("layers", "sequences"), [(3, 2), (5, 3)])
def test_what_is_kept_is_what_torch_keeps(
    settings: dict[str, Any], layers: int, sequences: int
) -> None:
    values = SMALL | settings | {"num_layers": layers}
    found = workload("gpt", "nano", values | {"head_dim": 16}, "float32")
    model: Any = row("gpt").model(parse(row("gpt").config, values | {"head_dim": 16}))
    ids, kept = torch.zeros(sequences, 16, dtype=torch.long), dict[int, int]()

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = next_token_loss(model.hidden(ids), model.head, ids)
    own = {each.untyped_storage().data_ptr() for each in model.parameters()}
    real = sum(size for pointer, size in kept.items() if pointer not in own)
    loss.backward()
    assert found.kept_per_sequence * sequences == pytest.approx(real, rel=0.05)


def test_half_the_bits_keep_less() -> None:
    kept = [
        workload("gpt", "gpt2", {}, precision).kept_per_sequence
        for precision in ("float32", "bfloat16")
    ]
    assert 0.5 < kept[1] / kept[0] < 0.9


@pytest.mark.parametrize("model", ["bert", "rnn-lm", "vit"])
def test_other_models_are_refused(model: str) -> None:
    with pytest.raises(UsageError, match=rf"{model} cannot be planned\. These can: gpt"):
        plan(model, device_kind="a100")


def test_settings_are_checked() -> None:
    with pytest.raises(GlassformerError, match="num_heads"):
        workload("gpt", "gpt2", {"num_heads": 7}, "float32")
