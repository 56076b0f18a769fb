"""Devices to train on: what their makers promise, and what is usually reached.

Speeds are those of dense matrix products in bfloat16 (float16 where there is no bfloat16), from the
data sheets. Bandwidths are per device and direction. Prices are rough rental prices of 2025: they
differ by a factor of three between providers, so pass your own.
"""

from dataclasses import dataclass

from glassformer.errors import UsageError

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
    within, between = (GIGA * each for each in links)
    speed = flops * TERA * UTILIZATION
    precision = "float16" if name in OLDER else "bfloat16"
    return Device(name, speed, memory * GIGA, per_node, within, between, price, precision=precision)


KINDS = {
    each.name: each
    for each in (
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
