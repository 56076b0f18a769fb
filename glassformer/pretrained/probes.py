"""Inputs with which a model is compared with itself after it was written and read again."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.labeller import Labeller
from glassformer.pretrained.family import Inputs

ROWS, LENGTH = 2, 24


@dataclass(frozen=True)
class Probe:
    """Random inputs, by the names that transformers has for them."""

    inputs: dict[str, Tensor]
    kept: Tensor | None
    """Which positions are compared: (B, T); None: all. Padding is not."""

    def logits(self, model: nn.Module) -> Tensor:
        """What a model of ours computes from them."""
        with torch.inference_mode():
            values = _computed(model.eval(), self.inputs)
            if isinstance(model, Labeller):
                values = values / model.temperature
        return values.float().cpu()

    def difference(self, one: Tensor, other: Tensor) -> float:
        """The largest difference between logits."""
        if self.kept is not None and one.dim() == 3:
            one, other = one[self.kept], other[self.kept]
        return float((one - other).abs().max())


def probe_of(inputs: Inputs, config: Any) -> Probe:
    """Two rows, of which the second is padded where a model can be."""
    random = torch.Generator().manual_seed(0)
    if inputs == "image":
        shape = (ROWS, config.channels, *config.size)
        return Probe({"pixel_values": torch.randn(shape, generator=random)}, None)
    length = min(LENGTH, config.context_length)
    ids = torch.randint(0, config.vocab_size, (ROWS, length), generator=random)
    if inputs in ("text", "palette"):
        return Probe({"input_ids": ids}, None)
    is_text = torch.arange(length) < torch.tensor([[length], [max(1, length // 2)]])
    values = {"input_ids": ids, "attention_mask": is_text.long()}
    if inputs == "pair":
        number = config.target_vocab_size or config.vocab_size
        target = torch.randint(0, number, (ROWS, length), generator=random)
        return Probe(values | {"decoder_input_ids": target}, None)
    return Probe(values, is_text)


def _computed(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    on_device = {name: tensor.to(model.device) for name, tensor in inputs.items()}
    match on_device:
        case {"pixel_values": pixels}:
            return model(pixels)
        case {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": target}:
            return model(ids, target, mask.bool())
        case {"input_ids": ids, "attention_mask": mask}:
            has_head = getattr(model.config, "has_head", True)
            return model(ids, mask.bool()) if has_head else model.hidden(ids, mask.bool())
        case {"input_ids": ids}:
            return model(ids)
    raise TypeError(f"unknown inputs {list(inputs)}")
