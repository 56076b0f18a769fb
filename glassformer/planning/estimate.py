"""From a model, tokens and devices to memory, time and money; and how that scales.

    seconds  =  steps · (operations / speed + what waiting for other devices adds)
    bytes    =  weights + gradients + moments of AdamW + kept for the backward pass + work space

Nothing is allocated, and nothing is trained.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from glassformer.config import parse
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import MODELS, count_parameters, row
from glassformer.nn.loss import CHUNK, next_token_loss
from glassformer.wording import counted, readable_size

# --- devices: what their makers promise, and what is usually reached ---
# Speeds are those of dense matrix products in bfloat16 (float16 where there is no bfloat16), from
# the data sheets. Bandwidths are per device and direction. Prices are rough rental prices of 2025:
# they differ by a factor of three between providers, so pass your own.

TERA, GIGA = 1e12, 1e9
UTILIZATION = 0.4
"""Share of the promised speed that training reaches. Published: 21 % for GPT-3, 46 % for PaLM, 30
to 52 % for Megatron-LM on A100s."""


OLDER = ("t4", "v100")  # without bfloat16


@dataclass(frozen=True)
class Device:
    """One accelerator, and how it is connected to others."""

    name: str
    flops: float
    """Floating-point operations per second of training: promised speed × utilization."""
    memory: float
    """Bytes."""
    per_node: int
    """Devices in one machine."""
    within: float
    """Bytes per second between devices of one machine."""
    between: float
    """Bytes per second from a device to other machines."""
    price: float | None
    """US dollars per device and hour; None for a machine that is yours."""
    reserved: float = 1.5 * GIGA
    """Bytes of its memory for the driver, kernels and what lies between allocations."""
    precision: str = "bfloat16"
    """The fastest in which it trains."""
    start: float = 10e-6
    """Seconds before the first byte of a message arrives."""
    is_measured: bool = False


def _device(
    name: str, flops: float, memory: float, per_node: int, links: tuple[float, float], price: float
) -> Device:
    """Speeds in TFLOP/s and GB/s, memory in GB."""
    within, between = (GIGA * speed for speed in links)
    speed = flops * TERA * UTILIZATION
    precision = "float16" if name in OLDER else "bfloat16"
    return Device(name, speed, memory * GIGA, per_node, within, between, price, precision=precision)


KINDS = {
    device.name: device
    for device in (
        _device("t4", 65, 16, 4, (12, 3), 0.50),
        _device("l4", 121, 24, 8, (25, 6), 0.80),
        _device("a10g", 70, 24, 8, (25, 6), 1.00),
        _device("rtx3090", 71, 24, 4, (12, 3), 0.30),
        _device("rtx4090", 165, 24, 4, (25, 3), 0.50),
        _device("v100", 125, 32, 8, (150, 12.5), 2.50),
        _device("a100-40gb", 312, 40, 8, (300, 25), 2.00),
        _device("a100", 312, 80, 8, (300, 25), 2.50),
        _device("h100", 989, 80, 8, (450, 50), 3.50),
        _device("h200", 989, 141, 8, (450, 50), 4.00),
        _device("b200", 2250, 180, 8, (900, 50), 6.00),
        _device("mi300x", 1307, 192, 8, (448, 50), 3.50),
    )
}


def device_of(kind: str) -> Device:
    if kind.lower() not in KINDS:
        raise UsageError(
            f'the device kind "{kind}" is unknown. Known kinds: {", ".join(KINDS)}; without '
            "--device-kind the plan is for this machine."
        )
    return KINDS[kind.lower()]


# --- what a model asks of any machine: parameters, operations per token, bytes to remember ---
# Parameters are counted on the meta device. The bytes that the forward pass keeps for the backward
# pass are counted on fake tensors, which have shapes but no numbers: those of models with one and
# two layers, with one and two sequences, determine the rest, for all of it is linear.

PLANNED, HEADS = "language", "num_heads"  # what can be planned: language models with attention


@dataclass(frozen=True)
class Workload:
    """One model."""

    name: str
    parameters: int
    layers: int
    width: int
    context: int
    flops_per_token: float
    """Operations of training: forward, and backward, which takes twice as many."""
    attention_share: float
    """The share of these operations that grow with the context."""
    kept_per_sequence: float
    """Bytes kept for the backward pass, for each sequence of a batch."""
    kept_per_layer: float
    """The part of it that belongs to one layer."""
    kept_at_a_boundary: float
    """Bytes per sequence of the input of a layer, from which its activations can be recomputed."""
    working: float
    """Bytes that any batch needs: logits of a chunk, and the gradient of the head."""
    largest_layer: int
    """Parameters of the largest unit that FSDP gathers at once."""


def workload(model: str, preset: str | None, settings: dict[str, Any], precision: str) -> Workload:
    """What `train MODEL --preset PRESET --set model.…` would ask for."""
    about = row(model)
    values = about.preset(preset or about.smallest) | settings
    config: Any = parse(about.config, {"vocab_size": 8192} | values)
    with torch.device("meta"):
        whole: Any = about.model(config)
    parameters = count_parameters(whole)
    blocks = [count_parameters(block) for block in whole.blocks]
    head_dim = config.head_dim or config.d_model // config.num_heads
    # Every weight of a matrix is multiplied and added once per token; embeddings are looked up.
    products = 2 * _products(whole)
    # Each query meets all keys, then all values: the masked half is computed, too.
    attention = 2 * 2 * config.num_layers * config.num_heads * head_dim * config.context_length
    one, two, more = (
        _kept(about.model, config, layers, sequences, precision)
        for layers, sequences in ((1, 1), (2, 1), (1, 2))
    )
    per_layer, per_sequence = two - one, more - one
    size = torch.finfo(getattr(torch, precision)).bits // 8
    return Workload(
        name=" ".join(filter(None, (model, preset or about.smallest))),
        parameters=parameters,
        layers=config.num_layers,
        width=config.d_model,
        context=config.context_length,
        flops_per_token=3.0 * (products + attention),
        attention_share=attention / (products + attention),
        kept_per_sequence=per_sequence + (config.num_layers - 1) * per_layer,
        kept_per_layer=per_layer,
        kept_at_a_boundary=4.0 * config.context_length * config.d_model,
        working=max(0.0, one - per_sequence) + 3 * CHUNK * 4 + size * max(blocks),
        largest_layer=max(*blocks, parameters - sum(blocks)),
    )


def check_model(model: str) -> None:
    """Raise unless it is a language model with attention."""
    plannable = [
        name
        for name, about in MODELS.items()
        if about.task == PLANNED and HEADS in about.config.model_fields
    ]
    if model not in plannable:
        raise UsageError(f"{model} cannot be planned. These can: {', '.join(plannable)}.")


def _products(model: nn.Module) -> int:
    """Weights of all linear layers; a tied head multiplies, too."""
    return sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))


def _kept(model: type[nn.Module], config: Any, layers: int, sequences: int, precision: str) -> int:
    """Bytes that the forward pass of a model with so many layers keeps."""
    kept: dict[int, Tensor] = {}  # by storage: several tensors may be views of one

    def keep(tensor: Tensor) -> Tensor:
        kept.setdefault(tensor.untyped_storage()._cdata, tensor)
        return tensor

    with FakeTensorMode():
        small: Any = model(config.model_copy(update={"num_layers": layers}))
        ids = torch.zeros(sequences, config.context_length, dtype=torch.long)
        dtype = getattr(torch, precision)
        with (
            torch.autocast("cpu", dtype, enabled=dtype != torch.float32),
            saved_tensors_hooks(keep, lambda tensor: tensor),
        ):
            next_token_loss(small.hidden(ids), small.head, ids)
        weights = {weight.untyped_storage()._cdata for weight in small.parameters()}
        return sum(
            tensor.untyped_storage().nbytes() for key, tensor in kept.items() if key not in weights
        )


# --- how devices share a training: what each one has to hold, and what they tell each other ---
#
# single   one device holds everything
# ddp      every device holds the whole model and learns from its share of the batch;
#          gradients are summed over all devices once per update
# fsdp     weights, gradients and optimizer are divided, too; each layer is gathered when it is
#          needed, forward and backward, and its gradient is divided again afterwards

STRATEGIES = ("single", "ddp", "fsdp")
WEIGHT = GRADIENT = 4  # bytes of float32
MOMENTS = 8  # of AdamW
BUCKET = 25e6  # bytes of gradients that DDP sends at once
OVERLAP = 0.8  # share of a transfer that can happen while the device computes


@dataclass(frozen=True)
class Memory:
    """Bytes on one device."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    other: float
    """The work space of a batch, layers that are gathered, and what the device itself reserves."""

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer + self.activations + self.other


def memory(
    work: Workload, device: Device, strategy: str, devices: int, sequences: int, recompute: bool
) -> Memory:
    """What each device has to hold with so many sequences at a time."""
    share = devices if strategy == "fsdp" else 1
    kept = work.kept_per_sequence
    if recompute:  # the inputs of all layers, and one layer as a whole
        kept = work.kept_at_a_boundary * work.layers + work.kept_per_layer
    other = work.working + device.reserved
    if strategy == "fsdp":
        other += 2 * WEIGHT * work.largest_layer  # one in use, one on its way
    if strategy == "ddp":
        other += BUCKET
    return Memory(
        weights=WEIGHT * work.parameters / share,
        gradients=GRADIENT * work.parameters / share,
        optimizer=MOMENTS * work.parameters / share,
        activations=kept * sequences,
        other=other,
    )


def all_reduce(size: float, devices: int, device: Device) -> float:
    """Seconds until all devices have the sum of `size` bytes: within each machine the parts are
    summed, then between machines, and back."""
    return 2 * all_gather(size, devices, device)


def all_gather(size: float, devices: int, device: Device) -> float:
    """Seconds until all devices have `size` bytes of which each had a part. (To sum and divide them
    takes as long, in the opposite direction.)

    In a ring, each device passes on all parts but its own: (n - 1) / n of the bytes.
    """
    if devices == 1:
        return 0.0
    inside = min(devices, device.per_node)
    nodes = -(-devices // device.per_node)
    seconds = (inside - 1) * (size / nodes / inside / device.within + device.start)
    if nodes > 1:  # the devices of a machine fetch different parts, side by side
        seconds += (nodes - 1) * (size / nodes / inside / device.between + device.start)
        seconds += (inside - 1) / inside * size * (1 - 1 / nodes) / device.within
    return seconds


def waiting(
    work: Workload, device: Device, strategy: str, devices: int, batches: int, computing: float
) -> float:
    """Seconds of an update in which a device waits for others. `batches` are computed one after the
    other in `computing` seconds before the weights change."""
    if strategy == "single" or devices == 1:
        return 0.0
    if strategy == "ddp":
        sending = all_reduce(GRADIENT * work.parameters, devices, device)
        meanwhile = computing / batches * 2 / 3  # the backward pass of the last batch
    else:
        passes = 2 * batches + 1  # weights forward and backward, and gradients once
        sending = passes * all_gather(WEIGHT * work.parameters, devices, device)
        meanwhile = computing
    return max(sending - OVERLAP * meanwhile, (1 - OVERLAP) * sending)


# --- the fastest way that fits ---

BEST_RATIO = 20  # tokens per parameter make the best use of a given compute (Chinchilla)
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
