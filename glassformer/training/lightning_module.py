"""One LightningModule for every task, whatever the model.

loss → gradient → clip → learning rate of this step → update → running mean
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.runtime import processes
from glassformer.runtime.divided import whole
from glassformer.tasks.task import Objective
from glassformer.training.batch_order import WeighedBatch
from glassformer.training.finetuning import learning_shares
from glassformer.training.gradients import clip
from glassformer.training.optimizer import clipped_together, make_optimizer
from glassformer.training.recomputing import recompute_activations
from glassformer.training.schedule import rate_of
from glassformer.training.sharding import Loss, divide, gathered

LOWER = "Lower the learning rate, e.g. --set training.learning_rate=1e-4."  # if training diverges


class Learner(lightning.LightningModule):
    """Teaches a model its task.

    The model to validate and to keep is the one that learns, or the running mean of its weights,
    which has less of the noise of the last few steps.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self.training_config = objective.config
        is_averaged = self.training_config.ema > 0
        self.averaged = deepcopy(model).requires_grad_(False) if is_averaged else None
        if self.training_config.checkpoint_activations:
            recompute_activations(model)
        # In tuples, since they are no parts of this module: their weights are those of the model.
        self._loss: tuple[Any] = (Loss(model, objective),)
        self._copies: tuple[nn.Module, ...] = ()
        """Of a divided model, where it is put together: in the first process."""
        # The optimizer decides which gradients are sparse, and DDP asks before it is made.
        self.configure_optimizers()

    def configure_model(self) -> None:
        """Divide the weights among processes, if the strategy does so."""
        if self.device_mesh is None or self.is_divided:
            return
        if processes.is_first():
            self._copies = (deepcopy(self._result),)
        mesh = self.device_mesh["data_parallel"]
        divide(self.model, self._loss[0], mesh)
        if self.averaged is not None:
            divide(self.averaged, self.averaged, mesh)

    @property
    def is_divided(self) -> bool:
        return hasattr(self._loss[0], "unshard")

    @property
    def _result(self) -> nn.Module:
        return self.model if self.averaged is None else self.averaged

    @contextmanager
    def result(self) -> Iterator[nn.Module]:
        """The model to validate, inside the `with` block."""
        if not self.is_divided:
            yield self._result
            return
        with self._mean_in_place(), gathered(self._loss[0]):
            yield self.model

    def kept(self) -> nn.Module:
        """The model to keep. If it is divided, the first process has it, but all must ask."""
        if not self.is_divided:
            return self._result
        copies = [copy.state_dict() for copy in self._copies]
        for name, tensor in self._result.state_dict().items():
            found = whole(tensor)
            for copy in copies:
                copy[name].copy_(found)
        return self._copies[0] if self._copies else self._result

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

    def training_step(self, batch: WeighedBatch, number: int) -> Tensor:
        if self.is_divided:
            count = self.training_config.gradient_accumulation_steps
            self._loss[0].set_requires_gradient_sync((number + 1) % count == 0)
        loss = self._loss[0](batch.batch) * batch.weight
        if not torch.isfinite(loss):
            raise GlassformerError(
                f"the loss became {loss.item()} at step {self.global_step + 1:,}, before the "
                f"weights were changed. {LOWER}"
            )
        return loss

    def configure_gradient_clipping(self, optimizer: Any, *_: Any, **__: Any) -> None:
        if (norm := self.training_config.max_grad_norm) > 0:
            for parameters in clipped_together(self.model):
                clip(parameters, norm)

    def optimizer_step(self, epoch: int, batch: int, optimizer: Any, *args: Any) -> None:
        config = self.training_config
        step = self.global_step  # from 0
        share = rate_of(config, step)
        for group in optimizer.param_groups:
            group["lr"] = share * group["highest_lr"]
        super().optimizer_step(epoch, batch, optimizer, *args)
        if self.averaged is not None:
            # A mean over few steps at first: the weights of the very beginning are soon forgotten.
            decay = min(config.ema, (step + 1) / (step + 10))
            now = [parameter.detach() for parameter in self.model.parameters()]
            torch._foreach_lerp_(list(self.averaged.parameters()), now, 1 - decay)

    def configure_optimizers(self) -> Any:
        config = self.training_config
        optimizer = make_optimizer(
            config.optimizer,
            self.model,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=(config.adam_beta1, config.adam_beta2),
            shares=learning_shares(self.objective.recipe, self.model),
        )
        if self.is_divided:  # sparse gradients cannot be
            for table in self.model.modules():
                if isinstance(table, nn.Embedding):
                    table.sparse = False
        for group in optimizer.param_groups:
            group["highest_lr"] = group["lr"]
        self._settings = [
            {key: value for key, value in group.items() if key != "params"}
            for group in optimizer.param_groups
        ]
        return optimizer

    def on_train_start(self) -> None:
        """The settings are those of the recipe, even if a saved state has brought its own."""
        optimizer = self.trainer.optimizers[0]
        for group, settings in zip(optimizer.param_groups, self._settings, strict=True):
            group.update(settings)
