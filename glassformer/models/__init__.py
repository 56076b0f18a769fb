"""Every model by its name. The table is closed: a file on disk can only choose from it."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from glassformer.config import Config
from glassformer.errors import UsageError
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.models.gpt_presets import GPT_PRESETS, GPT_SIZES


@dataclass(frozen=True)
class Entry:
    """A model, its config, and the presets that users know by name."""

    config: type[Config]
    model: type[nn.Module]
    presets: dict[str, dict[str, Any]]
    sizes: tuple[tuple[float, str], ...]
    """Which preset suits how much text: (at least so many tokens, preset), largest first."""

    @property
    def smallest(self) -> str:
        return self.sizes[-1][1]

    def preset(self, name: str) -> dict[str, Any]:
        if name not in self.presets:
            raise UsageError(f'there is no preset "{name}". There are: {", ".join(self.presets)}.')
        return self.presets[name]


MODELS: dict[str, Entry] = {
    "gpt": Entry(GPTConfig, GPT, GPT_PRESETS, GPT_SIZES),
}


def entry(name: str) -> Entry:
    if name not in MODELS:
        raise UsageError(f'there is no model "{name}". There are: {", ".join(MODELS)}.')
    return MODELS[name]
