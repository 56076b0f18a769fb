"""What learns: a model with its optimizer and, if there is one, the running mean of its weights.

The parts of a step (`loop.py`) on any device, in any precision, in any number of processes, which
Lightning Fabric supplies; the loss is a module because processes meet where its `forward` is
called. With FSDP every process holds only a part of each weight, of its gradient and of what the
optimizer knows about it:

    forward    the weights of a block are gathered, used, and given up again
    backward   they are gathered once more, and gradients are summed and sharded
    update     each process moves its own part

Of Lightning only Fabric is installed, and it is imported when the data has been read: the whole of
it brings torchmetrics, whose import takes longer than torch's own.
"""

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.utils import get_total_norm
from torch.utils.checkpoint import checkpoint

from glassformer.errors import GlassformerError
from glassformer.machine import processes
from glassformer.machine.host import Setup
from glassformer.machine.processes import local_part, sharded_like, whole
from glassformer.nn.blocks import Stack
from glassformer.tasks.recipe import DecidedTraining
from glassformer.tasks.task import Objective
from glassformer.training.optimizer_and_schedule import clipped_together, optimizer_of

# --- the size of gradients ---


def are_finite(parameters: Iterable[nn.Parameter]) -> bool:
    return bool(_norm(_gradients(parameters)).isfinite())


def clip(parameters: Iterable[nn.Parameter], most: float) -> None:
    """Scale all gradients together so that their norm is at most `most`."""
    gradients = _gradients(parameters)
    share = (most / (_norm(gradients) + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_([local_part(gradient) for gradient in gradients], share)


def _norm(gradients: list[Tensor]) -> Tensor:
    return whole(get_total_norm(gradients))


def _gradients(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """The gradients, of which a sparse one is reduced to the rows that it has."""
    gradients = []
    for parameter in parameters:
        if (gradient := parameter.grad) is None:
            continue
        if gradient.is_sparse:
            gradient = parameter.grad = gradient.coalesce()  # each row once
        gradients.append(gradient.values() if gradient.is_sparse else gradient)
    return gradients


# --- activation checkpointing ---
# A block keeps its input only, and computes the rest once more when the backward pass needs it:
# less memory, a third more operations, the same numbers. Its `forward` is wrapped, so that the
# names in saved states stay the same.


def recompute_activations(model: nn.Module) -> None:
    """Recompute those of all blocks of a model. Copies of the model have to be made before."""
    for stack in model.modules():
        if isinstance(stack, Stack):
            for block in stack:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)


# --- learner ---

LOWER = "Lower the learning rate, e.g. --set training.learning_rate=1e-4."  # if training diverges
PRECISIONS: dict[str, Any] = {"float32": "32-true", "bfloat16": "bf16-mixed", "float16": "16-mixed"}


class Batch:
    """A batch of one process, its number among those of all, and how much its mean loss counts
    among the batches of one update: 1 on average. No tuple: Fabric would convert what is in it."""

    def __init__(self, number: int, content: Any, weight: float = 1.0) -> None:
        self.number = number
        self.content = content
        self.weight = weight


class Loss(nn.Module):
    """The loss of a model, as a module."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch) -> Tensor:
        return self.objective.loss(self.model, batch.content) * batch.weight


class Learner:
    """Teaches a model its task.

    The model to validate and to keep is the one that learns, or the running mean of its weights,
    which has less of the noise of the last few steps. The mean replaces the averaging of several
    checkpoints: it has the same effect, takes one more copy of the weights, and leaves nothing to
    choose afterwards.
    """

    def __init__(self, model: nn.Module, objective: Objective, setup: Setup) -> None:
        self.model = model
        self.objective = objective
        config = objective.config
        self.averaged = deepcopy(model).requires_grad_(False) if config.ema > 0 else None
        if config.checkpoint_activations:
            recompute_activations(model)
        self._copy: nn.Module | None = None  # of a sharded model, where it is put together
        with quiet():
            self.fabric = fabric_for(config, setup, self._shard)
            # First, because it decides which gradients are sparse, and DDP asks.
            self.optimizer = optimizer_of(objective, model)
            self._loss = Loss(model, objective)
            self._parallel_loss = self.fabric.setup_module(self._loss)
            if self.averaged is not None and not self.is_sharded:
                self.averaged.to(self.fabric.device)
            if self.is_sharded:
                self.optimizer = optimizer_of(objective, model)  # of the parts
                for table in self.model.modules():  # of which no gradient can be sparse
                    if isinstance(table, nn.Embedding):
                        table.sparse = False
            self._optimizer: Any = self.fabric.setup_optimizers(self.optimizer)

    # --- the parts of a step ---

    def accumulating(self, is_last: bool) -> AbstractContextManager[Any]:
        """A context for one batch of an update: processes add up their gradients after the last."""
        return self.fabric.no_backward_sync(self._parallel_loss, enabled=not is_last)

    def loss(self, batch: Batch) -> Tensor:
        batch.content = self.fabric.to_device(batch.content)
        return self._parallel_loss(batch)

    def backward(self, loss: Tensor) -> None:
        self.fabric.backward(loss)

    def clip(self, step: int) -> None:
        """Scale the gradients to the norm of the recipe; an error unless they are finite."""
        config, precision = self.objective.config, self.fabric.strategy.precision
        precision.unscale_gradients(self.optimizer)
        # In float16 gradients may overflow now and then: its scaler sees to that.
        if config.precision != "float16" and not are_finite(self.model.parameters()):
            raise GlassformerError(
                f"a gradient became infinite or NaN at step {step:,}, before the weights were "
                f"changed. {LOWER}"
            )
        if config.max_grad_norm > 0:
            for parameters in clipped_together(self.model):
                clip(parameters, config.max_grad_norm)

    def update(self, rate: float) -> None:
        """Change the weights, at this share of the learning rate of each group of parameters."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["highest_lr"]
        self._optimizer.step()
        self.optimizer.zero_grad()

    def average(self, step: int) -> None:
        """Move the running mean towards the new weights, if there is one."""
        if self.averaged is not None:
            # It does what averaging checkpoints does, for one more copy of the weights and with
            # nothing to choose afterwards.
            # A mean over few steps at first: the weights of the very beginning are soon forgotten.
            decay = min(self.objective.config.ema, step / (step + 9))
            now = [parameter.detach() for parameter in self.model.parameters()]
            torch._foreach_lerp_(list(self.averaged.parameters()), now, 1 - decay)

    # --- the model to validate and to keep ---

    @property
    def _result(self) -> nn.Module:
        return self.model if self.averaged is None else self.averaged

    @contextmanager
    def result(self) -> Iterator[nn.Module]:
        """The model to validate, inside the `with` block."""
        if not self.is_sharded:
            yield self._result
            return
        root: Any = self._loss
        with self._mean_in_place():
            root.unshard()  # all processes have to do so
            try:
                yield self.model
            finally:
                root.reshard()

    def gather(self) -> nn.Module:
        """The model to keep. If it is sharded, all must ask, and the first one gets it whole."""
        if not self.is_sharded:
            return self._result
        copies = {} if self._copy is None else self._copy.state_dict()
        for name, tensor in self._result.state_dict().items():
            content = whole(tensor)
            if name in copies:
                copies[name].copy_(content)
        return self._copy or self._result

    @contextmanager
    @torch.no_grad()
    def _mean_in_place(self) -> Iterator[None]:
        """The running mean in place of the weights: only these can be gathered."""
        if self.averaged is None:
            yield
            return
        weights = list(self.model.parameters())
        before = [weight.detach().clone() for weight in weights]
        for weight, mean in zip(weights, self.averaged.parameters(), strict=True):
            weight.copy_(mean)
        try:
            yield
        finally:
            for weight, value in zip(weights, before, strict=True):
                weight.copy_(value)

    @property
    def is_sharded(self) -> bool:
        return hasattr(self._loss, "unshard")

    def _shard(self, loss: nn.Module, mesh: DeviceMesh) -> nn.Module:
        """Shard the weights among the processes."""
        if processes.is_first():
            self._copy = deepcopy(self._result)
        mesh = mesh["data_parallel"]
        _shard_blocks(self.model, loss, mesh)
        if self.averaged is not None:
            _shard_blocks(self.averaged, self.averaged, mesh)
        return loss

    # --- what a saved state contains ---

    def state(self) -> dict[str, Any]:
        """Weights and optimizer. Of a sharded model, the parts, which saving puts together."""
        # The parameters themselves: tied ones are then the same object.
        averaged = self.averaged and self.averaged.state_dict(keep_vars=True)
        return {
            "model": dict(self.model.state_dict(keep_vars=True)),
            "averaged": dict(averaged or {}),
            "optimizer": self.optimizer.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),  # float16 has a scale
        }

    @torch.no_grad()
    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. The settings stay those of the recipe."""
        for model, saved in ((self.model, state["model"]), (self.averaged, state["averaged"])):
            ours = {} if model is None else model.state_dict(keep_vars=True)
            for name, tensor in ours.items():
                tensor.copy_(sharded_like(saved[name], tensor))
        groups = self.optimizer.param_groups
        weights = [weight for group in groups for weight in group["params"]]
        memory = {
            index: {
                key: sharded_like(value, weights[index]) if value.dim() else value
                for key, value in values.items()
            }
            for index, values in state["optimizer"]["state"].items()
        }
        settings = [{k: v for k, v in group.items() if k != "params"} for group in groups]
        self.optimizer.load_state_dict(state["optimizer"] | {"state": memory})
        for group, values in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(values)
        self.fabric.strategy.precision.load_state_dict(state["precision"])


def update_batches(objective: Objective, update: int, most: int | None = None) -> list[Batch]:
    """The batches of this process for one update (from 0). Batch n is a pure function of n, so a
    resumed run continues with exactly the batch that was due.

    Several batches of one update (gradient accumulation) act as one large batch, whose loss is a
    mean over all its targets: a batch with more targets counts more. Processes that train together
    take the batches of an update in turn, so the same batches make an update however many processes
    there are: two that accumulate two compute what one computes from four, up to the order of sums.
    """
    config, peer = objective.config, processes.here()
    rank, size = (0, 1) if peer is None else (peer.rank, peer.size)
    first = update * config.gradient_accumulation_steps
    numbers = range(first, first + config.gradient_accumulation_steps)
    batches = [
        Batch(number * size + rank, objective.batch(number * size + rank, most))
        for number in numbers
    ]
    if config.batches_per_update > 1:
        counts = [objective.num_targets(batch.content) for batch in batches]
        everywhere = [count for counts in processes.from_all(counts) for count in counts]
        mean = sum(everywhere) / len(everywhere)
        for batch, count in zip(batches, counts, strict=True):
            batch.weight = count / mean
    return batches


def fabric_for(config: DecidedTraining, setup: Setup, shard: Any) -> Fabric:
    """Lightning Fabric with the device, the precision and the strategy of a training.

    With FSDP2 it is used without its own states, which would be pickle: `Learner.state` has them.
    """
    peer = processes.here()
    strategy: Any = "auto"
    if peer is not None:
        sharded = ModelParallelStrategy(shard, data_parallel_size=peer.size, tensor_parallel_size=1)
        strategy = sharded if config.strategy == "fsdp" else DDPStrategy()
    fabric = Fabric(
        accelerator="gpu" if setup.device.startswith("cuda") else setup.device,
        devices=1 if peer is None else peer.size_of_node,
        num_nodes=1 if peer is None else peer.num_nodes,
        strategy=strategy,
        precision=PRECISIONS[setup.precision],
    )
    fabric.launch()
    return fabric


def _shard_blocks(model: nn.Module, root: nn.Module, mesh: DeviceMesh) -> None:
    """Shard the weights of a model; `root` is or contains it. Weights are gathered when `forward`
    of their module is called, so the root gathers what belongs to no block."""
    for stack in model.modules():
        # Keys and values of a memory are computed outside the blocks that attend to it.
        if isinstance(stack, Stack) and not stack.cross_attentions:
            for block in stack:
                fully_shard(block, mesh=mesh)
    fully_shard(root, mesh=mesh)


@contextmanager
def quiet() -> Iterator[None]:
    """Lightning greets, advises and warns; what matters to a user is reported by us."""
    logger = logging.getLogger("lightning_fabric")
    level = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning_fabric.*")
        try:
            yield
        finally:
            logger.setLevel(level)
