"""This machine as a device to train on: its measured speed, and what is free of its memory.

Several processes on it (`train --devices 2`) are several devices, each with a share of both.
"""

from glassformer.errors import UsageError
from glassformer.planning.devices import GIGA, Device
from glassformer.runtime.host import machine
from glassformer.wording import counted

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
