"""A plan: what a training will need, where it would break, and on which assumptions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from glassformer.errors import UsageError
from glassformer.files import check_ending
from glassformer.inspect.figures import SCALING_ENDINGS, Point, draw_scaling
from glassformer.machine.host import machine
from glassformer.models import row
from glassformer.planning.estimate import (
    BEST_RATIO,
    GIGA,
    OVERLAP,
    UTILIZATION,
    Device,
    Estimate,
    check_model,
    device_of,
    estimate,
    first_below,
    memory,
    scaling,
    workload,
)
from glassformer.tables import Row, Table, html_table
from glassformer.wording import counted, readable_size

# --- this machine as a device to train on: its measured speed, and what is free of its memory ---
# Several processes on it (`train --devices 2`) are several devices, each with a share of both.

LOOPBACK = 1.5 * GIGA  # bytes per second between two processes here
PYTHON = 0.75 * GIGA  # bytes of a process that has imported torch and Lightning
ROOM = 0.9  # share of the memory that a training may use
UNKNOWN = 8 * GIGA


def this_machine(width: int, processes: int = 1) -> tuple[Device, str]:
    """The device for a model of this width, and the precision that it trains in."""
    here = machine(width=width)
    if processes > here.cores_usable:
        raise UsageError(
            f"this machine has {counted(here.cores_usable, 'core')} for {processes:,} devices. "
            "Pass a smaller --devices, or name the kind of other devices with --device-kind."
        )
    speed = here.probe[here.precision].at(width)
    return Device(
        name="this machine" if processes == 1 else "process on this machine",
        flops=1e12 * (speed.tflops if speed else 0.05) / processes,
        memory=ROOM * (here.memory_bytes or UNKNOWN) / processes,
        per_node=processes,
        within=LOOPBACK,
        between=LOOPBACK,
        price=None,
        reserved=PYTHON,
        start=1e-4,
        is_measured=True,
    ), here.precision


# --- plan ---

SEQUENCES = 512  # in a batch, as GPT-2 was trained
NIGHT = 8 * 3600.0  # seconds
MOST_TOKENS = 1e18  # a hundred thousand times as many as any text on Earth has


@dataclass(frozen=True)
class Plan:
    """The chosen way to run a training, and the same on other numbers of devices."""

    chosen: Estimate
    curve: list[Estimate]
    precision: str
    price_per_hour: float | None

    @property
    def price(self) -> float | None:
        return None if self.price_per_hour is None else self.chosen.price(self.price_per_hour)

    def as_json(self) -> dict[str, Any]:
        way = self.chosen
        return {
            "model": way.work.name,
            "parameters": way.work.parameters,
            "context_length": way.work.context,
            "tokens": way.tokens,
            "tokens_per_parameter": way.tokens / way.work.parameters,
            "flops": way.flops,
            "flops_per_token": way.work.flops_per_token,
            "device": way.device.name,
            "devices": way.devices,
            "strategy": way.strategy,
            "precision": self.precision,
            "checkpoint_activations": way.recompute,
            "sequences_per_device": way.sequences,
            "gradient_accumulation_steps": way.batches,
            "batch_tokens": way.batch_tokens,
            "steps": way.steps,
            "memory_bytes_per_device": way.memory.total,
            "memory_parts": dict(vars(way.memory)),
            "seconds_per_step": way.computing + way.waiting,
            "seconds_waiting_per_step": way.waiting,
            "seconds": way.seconds,
            "efficiency": way.efficiency,
            "price": self.price,
            "scaling": [
                {
                    "devices": point.devices,
                    "strategy": point.strategy,
                    "seconds": point.seconds,
                    "efficiency": point.efficiency,
                    "memory_bytes_per_device": point.memory.total,
                }
                for point in self.curve
            ],
            "assumptions": list(self.assumptions),
        }

    @property
    def rows(self) -> dict[str, str]:
        """The plan as text."""
        way, work = self.chosen, self.chosen.work
        ratio, best = way.tokens / work.parameters, BEST_RATIO * work.parameters
        nodes = -(-way.devices // way.device.per_node)
        machines = f" in {counted(nodes, 'machine')}" if way.devices > 1 else ""
        again = ", activations recomputed" if way.recompute else ""
        parts = ", ".join(
            f"{name} {readable_size(round(value))}" for name, value in vars(way.memory).items()
        )
        rows = {
            "model": f"{work.name}, {work.parameters:,} parameters, context {work.context:,}",
            "data": f"{way.tokens:.3g} tokens, {ratio:.3g} per parameter; about {BEST_RATIO} "
            f"({best:.2g} tokens) make the best use of the compute",
            "compute": f"{way.flops:.3g} FLOPs: 6 per parameter and token, "
            f"{work.attention_share:.0%} of them for attention",
            "devices": f"{way.devices:,} × {way.device.name}{machines}, {way.strategy}, "
            f"{self.precision}{again}",
            "batch": f"{counted(way.batch_tokens, 'token')}: {counted(way.sequences, 'sequence')} "
            f"at a time on each device"
            + (f", {way.batches:,} times per update" if way.batches > 1 else ""),
            "memory": f"{readable_size(round(way.memory.total))} of "
            f"{readable_size(round(way.device.memory))} per device ({parts})",
            "time": f"{duration(way.seconds)}: {counted(way.steps, 'step')} of "
            f"{way.computing + way.waiting:.3g} s, {way.efficiency:.0%} efficient",
        }
        if self.price is not None:
            rows["price"] = f"${self.price:,.0f} at ${self.price_per_hour:.2f} per device and hour"
        if not way.device.is_measured:
            rows["breaks"] = self._breaks()
        return rows | {"assumed": "; ".join(self.assumptions)}

    def text(self) -> str:
        return "\n".join(f"{name:10} {text}" for name, text in self.rows.items())

    def _repr_html_(self) -> str:
        return html_table(["", ""], list(map(list, self.rows.items())))

    def _breaks(self) -> str:
        """Where more devices no longer help."""
        fewest, most = self.curve[0].devices, self.curve[-1].devices
        limits = [f"needs at least {counted(fewest, 'device')}"] if fewest > 1 else []
        for share in (0.8, 0.5):
            if (devices := first_below(self.curve, share)) is not None:
                limits.append(f"below {share:.0%} efficiency from {counted(devices, 'device')} on")
        sequences = self.chosen.batch_tokens // self.chosen.work.context
        if most <= sequences < 2 * most:
            limits.append(f"a batch of {sequences:,} sequences cannot use more devices")
        return "; ".join(limits)

    @property
    def assumptions(self) -> Sequence[str]:
        device = self.chosen.device
        if device.is_measured:
            assumed = [f"{device.flops / 1e12:.3g} TFLOP/s, as measured here"]
        else:
            assumed = [
                f"{device.flops / 1e12:.4g} TFLOP/s, {UTILIZATION:.0%} of its peak",
                f"{device.within / 1e9:g} GB/s within a machine, {device.between / 1e9:g} between",
            ]
        if self.chosen.devices > 1:
            assumed.append(f"{OVERLAP:.0%} of the communication can be hidden behind computing")
        return [*assumed, "AdamW in float32"]


def plan(
    model: str = "gpt",
    preset: str | None = None,
    settings: dict[str, Any] | None = None,
    *,
    tokens: float | None = None,
    devices: int = 1,
    device_kind: str | None = None,
    batch_tokens: int | None = None,
    strategy: str | None = None,
    checkpoint_activations: bool | None = None,
    price: float | None = None,
    out: "str | PathLike[str] | None" = None,
) -> Plan:
    """What a training will need: `glassformer plan`.

    `settings` are keys of the model's config. Without a kind of device the plan is for this
    machine; without tokens, for as many as use the compute best. `out` is a picture of how the
    training scales, .png or .svg.
    """
    if out is not None:
        check_ending(Path(out), SCALING_ENDINGS)
    if price is not None and not 0 <= price < math.inf:
        raise UsageError(f"--price is {price:g}. Pass the price of a device and hour in dollars.")
    for name, value in (("tokens", tokens), ("batch-tokens", batch_tokens)):
        if value is not None and value > MOST_TOKENS:
            raise UsageError(f"--{name} is {value:.3g}: at most {MOST_TOKENS:.0e} can be planned.")
    check_model(model)
    settings = settings or {}
    width = int((row(model).preset(preset or row(model).smallest) | settings)["d_model"])
    if device_kind is None:
        device, precision = this_machine(width, devices)
    else:
        device = device_of(device_kind)
        precision = device.precision
    work = workload(model, preset, settings, precision)
    sequences = SEQUENCES
    if batch_tokens is not None:
        sequences = batch_tokens // work.context
        if not sequences:
            raise UsageError(
                f"--batch-tokens {batch_tokens:,} is less than one sequence of {work.context:,}."
            )
    wanted = tokens or BEST_RATIO * work.parameters
    way = (strategy, checkpoint_activations)
    chosen = estimate(work, device, wanted, devices, sequences, *way)
    # There is only one of this machine.
    curve = [chosen] if device.is_measured else scaling(work, device, wanted, sequences, *way)
    result = Plan(chosen, curve, precision, device.price if price is None else price)
    if out is not None:
        points = [Point(at.devices, at.seconds, at.efficiency) for at in curve]
        title = f"{work.name} on {device.name}"
        about = f"{result.rows['data'].partition(';')[0]}; {result.rows['assumed']}"
        draw_scaling(title, about, points, devices, Path(out))
    return result


@dataclass(frozen=True)
class Tonight:
    """What this machine could train in one night, smallest model first."""

    table: Table
    best: str
    """The largest model that would see enough tokens."""

    def as_json(self) -> dict[str, Any]:
        return {"hours": NIGHT / 3600, "models": list(self.table), "best": self.best}

    def text(self) -> str:
        hours = f"In {NIGHT / 3600:g} hours this machine can train, with tokens from your own data:"
        return f"{hours}\n{self.table!r}\nbest used: {self.best}"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def tonight(model: str = "gpt") -> Tonight:
    """Every preset of a model on this machine, for eight hours."""
    check_model(model)
    candidates = []
    for preset, values in row(model).presets.items():
        device, precision = this_machine(int(values["d_model"]))
        work = workload(model, preset, {}, precision)
        speed = device.flops / work.flops_per_token
        fits = memory(work, device, "single", 1, 1, True).total <= device.memory
        candidates.append((work, speed, fits))
    candidates.sort(key=lambda candidate: candidate[0].parameters)
    rows: list[Row] = [
        {
            "preset": work.name,
            "parameters": work.parameters,
            "tokens_per_second": round(speed),
            "tokens": round(speed * NIGHT),
            "tokens_per_parameter": float(f"{speed * NIGHT / work.parameters:.3g}"),
            "fits": "yes" if fits else "no",
        }
        for work, speed, fits in candidates
    ]
    enough = [
        work.name
        for work, speed, fits in candidates
        if fits and speed * NIGHT >= BEST_RATIO * work.parameters
    ]
    return Tonight(Table(rows), enough[-1] if enough else candidates[0][0].name)


def duration(seconds: float) -> str:
    """45 s, 12 min, 5.2 h, 3.4 days, 2.1 years."""
    for name, size in (("years", 365.25 * 86400), ("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (name in ("h", "min") and seconds >= size):
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"
