"""FSDP: every process holds a part of each weight, of its gradient and of what the optimizer knows
about it.

    forward    the weights of a block are gathered, used, and given up again
    backward   they are gathered once more, and gradients are summed and divided
    update     each process moves its own part

Weights are gathered when `forward` of their module is called. So the whole loss is one module
(`Loss`) whose `forward` gathers what belongs to no block, and `gathered` does the same for
everything else that a model is used for.

States are saved and loaded whole (`Sharded`), so they fit any number of processes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from glassformer.nn.blocks import Stack
from glassformer.runtime.divided import divided_like
from glassformer.tasks.task import Objective


class Loss(nn.Module):
    """The loss of a model, as a module."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Any) -> Tensor:
        return self.objective.loss(self.model, batch)


def divide(model: nn.Module, root: nn.Module, mesh: DeviceMesh) -> None:
    """Divide the weights of a model; `root` is or contains it."""
    for stack in model.modules():
        # Keys and values of a memory are computed outside the blocks that attend to it.
        if isinstance(stack, Stack) and not stack.cross_attentions:
            for block in stack:
                fully_shard(block, mesh=mesh)
    fully_shard(root, mesh=mesh)


@contextmanager
def gathered(root: Any) -> Iterator[None]:
    """Inside, the model can be used as if it were whole. All processes have to do so."""
    root.unshard()
    try:
        yield
    finally:
        root.reshard()


class Sharded(ModelParallelStrategy):
    """Lightning's FSDP2, with whole states through our own reader and writer: Lightning's would
    be read by torch.load."""

    lightning_restore_optimizer = True

    def __init__(self, num_processes: int) -> None:
        super().__init__(data_parallel_size=num_processes, tensor_parallel_size=1)

    def lightning_module_state_dict(self) -> dict[str, Any]:
        # The parameters themselves: tied ones are then the same object.
        return dict(self._module.state_dict(keep_vars=True))

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        return dict(optimizer.state_dict())

    def save_checkpoint(
        self, checkpoint: dict[str, Any], filepath: Any, storage_options: Any = None
    ) -> None:
        self.checkpoint_io.save_checkpoint(checkpoint, filepath)  # gathers on all processes
        self.barrier()

    def load_checkpoint(
        self, checkpoint_path: Any, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return self.checkpoint_io.load_checkpoint(checkpoint_path)

    @torch.no_grad()
    def load_model_state_dict(self, checkpoint: Mapping[str, Any], strict: bool = True) -> None:
        saved = checkpoint["state_dict"]
        for name, tensor in self._module.state_dict(keep_vars=True).items():
            tensor.copy_(divided_like(saved[name], tensor))

    def load_optimizer_state_dict(self, checkpoint: Mapping[str, Any]) -> None:
        for optimizer, saved in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            weights = [each for group in optimizer.param_groups for each in group["params"]]
            state = {
                number: {
                    key: divided_like(value, weights[number]) if value.dim() else value
                    for key, value in memory.items()
                }
                for number, memory in saved["state"].items()
            }
            optimizer.load_state_dict(saved | {"state": state})

    @property
    def _module(self) -> nn.Module:
        if self.lightning_module is None:
            raise RuntimeError("the strategy is used before it has a module")
        return self.lightning_module
