"""One LightningModule for every task, whatever the model.

loss → gradient → clip → learning rate of this step → update → running mean
"""

from copy import deepcopy
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.tasks.task import Objective
from glassformer.training.batch_order import WeighedBatch
from glassformer.training.finetuning import learning_shares
from glassformer.training.gradients import clip
from glassformer.training.optimizer import clipped_together, make_optimizer
from glassformer.training.schedule import rate_of

LOWER = "Lower the learning rate, e.g. --set training.learning_rate=1e-4."  # if training diverges


class Learner(lightning.LightningModule):
    """Teaches a model its task.

    `result` is the model to validate and to keep: the one that learns, or the running mean of its
    weights, which has less of the noise of the last few steps.
    """

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self.training_config = objective.config
        is_averaged = self.training_config.ema > 0
        self.averaged = deepcopy(model).requires_grad_(False) if is_averaged else None

    @property
    def result(self) -> nn.Module:
        return self.model if self.averaged is None else self.averaged

    def training_step(self, batch: WeighedBatch, number: int) -> Tensor:
        loss = self.objective.loss(self.model, batch.batch) * batch.weight
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
