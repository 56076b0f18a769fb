"""How devices share a training: what each one has to hold, and what they tell each other.

single   one device holds everything
ddp      every device holds the whole model and learns from its share of the batch;
         gradients are summed over all devices once per update
fsdp     weights, gradients and optimizer are divided, too; each layer is gathered when it is
         needed, forward and backward, and its gradient is divided again afterwards
"""

from dataclasses import dataclass

from glassformer.planning.devices import Device
from glassformer.planning.workload import Workload

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
