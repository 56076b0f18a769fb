"""What a figure was measured on: one line for RESULTS.md."""

import platform
from importlib.metadata import version

import torch

from glassformer.machine.facts import cpu_name


def describe() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    return (
        f"{cpu_name()}, {torch.get_num_threads()} threads; "
        f"Python {platform.python_version()}, {packages}"
    )
