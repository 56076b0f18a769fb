"""From a model, tokens and devices to memory, time and money; and how that scales."""

import math
from contextlib import suppress
from dataclasses import dataclass

from glassformer.errors import GlassformerError, UsageError
from glassformer.planning.devices import Device
from glassformer.planning.strategies import STRATEGIES, Memory, memory, waiting
from glassformer.planning.workload import Workload
from glassformer.wording import counted, readable_size

BEST_RATIO = (
    20  # tokens per parameter at which a given amount of compute is spent best (Chinchilla)
)
AGAIN = 4 / 3  # operations, if activations are recomputed: forward, forward again, backward (2)
MOST_DEVICES = 4096  # of the curve


@dataclass(frozen=True)
class Estimate:
    """One way to run the training."""

    work: Workload
    device: Device
    devices: int
    strategy: str
    recompute: bool
    sequences: int
    """On each device at a time."""
    batches: int
    """One after the other, before each update."""
    batch_tokens: int
    tokens: float
    memory: Memory
    computing: float
    """Seconds per update."""
    waiting: float

    @property
    def steps(self) -> int:
        return max(1, math.ceil(self.tokens / self.batch_tokens))

    @property
    def seconds(self) -> float:
        return self.steps * (self.computing + self.waiting)

    @property
    def flops(self) -> float:
        """Operations that the model asks for; recomputing is not counted."""
        return self.steps * self.batch_tokens * self.work.flops_per_token

    @property
    def efficiency(self) -> float:
        """Useful work per device, compared with one device that never waits or recomputes."""
        alone = self.batch_tokens * self.work.flops_per_token / self.device.flops
        return alone / self.devices / (self.computing + self.waiting)

    def price(self, per_hour: float) -> float:
        return self.devices * self.seconds / 3600 * per_hour


def estimate(
    work: Workload,
    device: Device,
    tokens: float,
    devices: int = 1,
    batch_sequences: int = 512,
    strategy: str | None = None,
    recompute: bool | None = None,
) -> Estimate:
    """The fastest way that fits, among those not excluded."""
    if strategy is not None and strategy not in STRATEGIES:
        raise UsageError(f'there is no strategy "{strategy}". Use one of {", ".join(STRATEGIES)}.')
    if strategy == "single" and devices > 1:
        raise UsageError(f"the strategy single uses one device, not {devices:,}. Use ddp or fsdp.")
    if devices > batch_sequences:
        raise UsageError(
            f"{counted(devices, 'device')} cannot share a batch of {batch_sequences:,} sequences: "
            "each needs at least one. Use fewer devices or a larger --batch-tokens."
        )
    names = [strategy] if strategy else ["ddp", "fsdp"] if devices > 1 else ["single"]
    ways = [False, True] if recompute is None else [recompute]
    fitting = [
        way
        for name in names
        for again in ways
        if (way := _way(work, device, tokens, devices, batch_sequences, name, again)) is not None
    ]
    if not fitting:
        least = min(
            memory(work, device, name, devices, 1, again).total for name in names for again in ways
        )
        raise GlassformerError(
            f"{work.name} does not fit: one sequence at a time needs {readable_size(round(least))} "
            f"on each {device.name}, which has {readable_size(round(device.memory))}. "
            + _cure(strategy, recompute)
        )
    return min(fitting, key=lambda way: way.seconds)


def _cure(strategy: str | None, recompute: bool | None) -> str:
    cures = ["use more devices" if strategy in (None, "fsdp") else "use --strategy fsdp"]
    cures += ["allow --checkpoint-activations"] if recompute is False else []
    return " or ".join([*cures, "choose a larger kind or a smaller --preset"]).capitalize() + "."


def _way(
    work: Workload,
    device: Device,
    tokens: float,
    devices: int,
    batch_sequences: int,
    strategy: str,
    recompute: bool,
) -> Estimate | None:
    """None if it does not fit."""
    most = sequences = batch_sequences // devices
    while memory(work, device, strategy, devices, sequences, recompute).total > device.memory:
        if sequences == 1:
            return None
        sequences //= 2  # what divides a batch into equal parts
    batches = -(-most // sequences)
    batch_tokens = sequences * batches * devices * work.context
    flops = batch_tokens / devices * work.flops_per_token * (AGAIN if recompute else 1)
    computing = flops / device.flops
    return Estimate(
        work=work,
        device=device,
        devices=devices,
        strategy=strategy,
        recompute=recompute,
        sequences=sequences,
        batches=batches,
        batch_tokens=batch_tokens,
        tokens=tokens,
        memory=memory(work, device, strategy, devices, sequences, recompute),
        computing=computing,
        waiting=waiting(work, device, strategy, devices, batches, computing),
    )


def scaling(
    work: Workload,
    device: Device,
    tokens: float,
    batch_sequences: int,
    strategy: str | None = None,
    recompute: bool | None = None,
) -> list[Estimate]:
    """1, 2, 4 … devices with the same batch, as far as it fits and can be divided."""
    estimates = []
    devices = 1
    while devices <= min(MOST_DEVICES, batch_sequences):
        way = "single" if devices == 1 else None if strategy == "single" else strategy
        with suppress(GlassformerError):  # it does not fit on so few
            estimates.append(
                estimate(work, device, tokens, devices, batch_sequences, way, recompute)
            )
        devices *= 2
    return estimates


def first_below(curve: list[Estimate], efficiency: float) -> int | None:
    """The first number of devices from which on efficiency is lower."""
    efficient = [at for at, way in enumerate(curve) if way.efficiency >= efficiency]
    below = curve[efficient[-1] + 1 if efficient else 0 :]
    return below[0].devices if below else None
