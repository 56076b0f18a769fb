"""What this machine can do, and what glassformer will therefore choose.

    found = machine()                    # looks, and measures once per machine
    chosen = prepare()                   # device, precision and threads, put into force
    seed_step(seed, step)                # every random number is a function of (seed, step)

Precision is never taken from what the processor says of itself: each one is tried in a child
process that may die of it. torch is imported inside the functions, so that reading a recipe or
printing help does not wait for it.
"""

from glassformer.runtime.cache import cache_dir
from glassformer.runtime.host import Machine, Setup, machine, pick_device, prepare
from glassformer.runtime.precision import PRECISIONS, Measurement
from glassformer.runtime.ranks import is_main_process
from glassformer.runtime.seeds import seed_step, step_seed

__all__ = [
    "PRECISIONS",
    "Machine",
    "Measurement",
    "Setup",
    "cache_dir",
    "is_main_process",
    "machine",
    "pick_device",
    "prepare",
    "seed_step",
    "step_seed",
]
