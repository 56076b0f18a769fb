"""Memory, time and money follow from the model, the devices and the assumptions."""

from dataclasses import replace

import pytest

from glassformer.errors import GlassformerError, UsageError
from glassformer.planning.estimate import (
    KINDS,
    UTILIZATION,
    Device,
    Workload,
    all_gather,
    all_reduce,
    device_of,
    estimate,
    first_below,
    memory,
    scaling,
    workload,
)

A100 = KINDS["a100"]


@pytest.fixture(scope="module")
def gpt2() -> Workload:
    return workload("gpt", "gpt2", {}, "bfloat16")


@pytest.fixture(scope="module")
def gpt2_xl() -> Workload:
    return workload("gpt", "gpt2-xl", {}, "bfloat16")


def test_one_device_does_all_the_work(gpt2: Workload) -> None:
    found = estimate(gpt2, A100, tokens=1e9)
    assert found.strategy == "single"
    assert found.efficiency == pytest.approx(1)
    speed = 312e12 * UTILIZATION / gpt2.flops_per_token
    assert found.seconds == pytest.approx(1e9 / speed, rel=1e-3)
    assert found.steps == -(-(10**9) // (512 * 1024))
    assert found.price(2.5) == pytest.approx(2.5 * found.seconds / 3600)


def test_weights_gradients_and_moments_take_16_bytes(gpt2: Workload) -> None:
    whole = memory(gpt2, A100, "ddp", 8, 4, recompute=False)
    kept = whole.weights + whole.gradients + whole.optimizer
    assert kept == 16 * gpt2.parameters
    divided = memory(gpt2, A100, "fsdp", 8, 4, recompute=False)
    assert divided.weights + divided.gradients + divided.optimizer == pytest.approx(kept / 8)
    less = memory(gpt2, A100, "ddp", 8, 4, recompute=True)
    assert less.activations < whole.activations / 5


def test_what_does_not_fit_is_divided(gpt2_xl: Workload) -> None:
    small = replace(A100, name="small", memory=16e9)
    with pytest.raises(GlassformerError, match="gpt gpt2-xl does not fit: one sequence at a time"):
        estimate(gpt2_xl, small, tokens=1e9)
    found = estimate(gpt2_xl, small, tokens=1e9, devices=16)
    assert found.strategy == "fsdp"
    assert found.memory.total <= 16e9
    with pytest.raises(GlassformerError, match="Use --strategy fsdp or"):
        estimate(gpt2_xl, small, tokens=1e9, devices=16, strategy="ddp")


def test_a_ring_passes_on_all_parts_but_its_own() -> None:
    ring = replace(A100, per_node=8, within=1e9, start=0.0)
    assert all_gather(8e9, 8, ring) == pytest.approx(7)
    assert all_reduce(8e9, 8, ring) == pytest.approx(14)
    assert all_gather(8e9, 1, ring) == 0


def test_between_machines_it_is_slower() -> None:
    times = [all_reduce(1e9, number, A100) for number in (1, 2, 4, 8, 16, 64, 512, 4096)]
    assert times == sorted(times)
    assert times[4] > 1.5 * times[3]  # the first step out of one machine


def test_more_devices_are_faster_and_less_efficient(gpt2: Workload) -> None:
    found = scaling(gpt2, A100, 9e9, 4096)
    assert [each.devices for each in found] == [2**power for power in range(13)]
    efficiencies = [each.efficiency for each in found]
    assert efficiencies == sorted(efficiencies, reverse=True)
    assert efficiencies[-1] < 0.5 < efficiencies[3]


def test_where_it_breaks(gpt2: Workload) -> None:
    curve = scaling(gpt2, A100, 9e9, 512)
    broken = first_below(curve, 0.8)
    assert broken is not None
    for each in curve:
        assert (each.efficiency < 0.8) == (each.devices >= broken)
    assert first_below(curve, 0.0) is None


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"devices": 1024}, "1,024 devices cannot share a batch of 512 sequences"),
        ({"strategy": "horovod"}, 'there is no strategy "horovod". Use one of single, ddp, fsdp'),
        ({"strategy": "single", "devices": 2}, "the strategy single uses one device, not 2"),
    ],
)
def test_contradictions_are_answered(gpt2: Workload, more: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        estimate(gpt2, A100, 1e9, **more)  # type: ignore[arg-type]


def test_an_unknown_kind_of_device_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r'"a1000" is unknown\. Known kinds: t4, l4, .*h100'):
        device_of("a1000")


def test_the_chosen_batch_is_what_it_says(gpt2_xl: Workload) -> None:
    device: Device = KINDS["rtx4090"]
    found = estimate(gpt2_xl, device, 1e9, devices=8)
    assert found.batch_tokens == found.sequences * found.batches * 8 * 1024
    assert found.memory.total <= device.memory
