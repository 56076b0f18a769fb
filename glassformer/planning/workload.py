"""What a model asks of any machine: parameters, operations per token, bytes to remember.

Nothing is allocated. Parameters are counted on the meta device. The bytes that the forward pass
keeps for the backward pass are counted on fake tensors, which have shapes but no numbers: those of
models with one and two layers, with one and two sequences, determine the rest, for all of it is
linear.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from glassformer.config import parse
from glassformer.errors import UsageError
from glassformer.evaluation.losses import CHUNK, next_token_loss
from glassformer.models import MODELS, row

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
    chosen = row(model)
    values = chosen.preset(preset or chosen.smallest) | settings
    config: Any = parse(chosen.config, {"vocab_size": 8192} | values)
    with torch.device("meta"):
        whole: Any = chosen.model(config)
    parameters = _count(whole)
    blocks = [_count(block) for block in whole.blocks]
    head_dim = config.head_dim or config.d_model // config.num_heads
    # Every weight of a matrix is multiplied and added once per token; embeddings are looked up.
    products = 2 * _products(whole)
    # Each query meets all keys, then all values: the masked half is computed, too.
    attention = 2 * 2 * config.num_layers * config.num_heads * head_dim * config.context_length
    one, two, more = (
        _kept(chosen.model, config, layers, sequences, precision)
        for layers, sequences in ((1, 1), (2, 1), (1, 2))
    )
    per_layer, per_sequence = two - one, more - one
    size = torch.finfo(getattr(torch, precision)).bits // 8
    return Workload(
        name=" ".join(filter(None, (model, preset or chosen.smallest))),
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
        for name, each in MODELS.items()
        if each.task == PLANNED and HEADS in each.config.model_fields
    ]
    if model not in plannable:
        raise UsageError(f"{model} cannot be planned. These can: {', '.join(plannable)}.")


def _count(module: nn.Module) -> int:
    """The number of its parameters, each counted once."""
    return sum(each.numel() for each in module.parameters())


def _products(model: nn.Module) -> int:
    """Weights of all linear layers; a tied head multiplies, too."""
    return sum(each.weight.numel() for each in model.modules() if isinstance(each, nn.Linear))


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
        own = {each.untyped_storage()._cdata for each in small.parameters()}
        return sum(
            tensor.untyped_storage().nbytes() for key, tensor in kept.items() if key not in own
        )
