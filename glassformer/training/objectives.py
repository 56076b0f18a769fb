"""What is being learned: one LightningModule per objective, whatever the model.

next token    loss = mean of -log p(t_n | t_<n), at all positions of all windows at once
"""

from copy import deepcopy
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.models.language_model import LanguageModel
from glassformer.training.losses import next_token_loss
from glassformer.training.optim import make_optimizer
from glassformer.training.recipe import DecidedTraining
from glassformer.training.schedule import rate


class NextToken(lightning.LightningModule):
    """Teaches a language model to predict each token from those before it.

    `result` is the model to validate and to keep: the one that learns, or the running mean of its
    weights, which has less of the noise of the last few steps.
    """

    def __init__(self, model: LanguageModel, config: DecidedTraining) -> None:
        super().__init__()
        self.model = model
        self.averaged = deepcopy(model).requires_grad_(False) if config.ema else None
        self.training_config = config

    @property
    def result(self) -> LanguageModel:
        return self.model if self.averaged is None else self.averaged

    def training_step(self, batch: Tensor, number: int) -> Tensor:
        inputs, targets = batch[:, :-1], batch[:, 1:]  # (B, T): the targets are one further on
        loss = next_token_loss(self.model.hidden(inputs), self.model.head, targets)
        if not torch.isfinite(loss):
            raise GlassformerError(
                f"the loss became {loss.item()} at step {self.global_step + 1:,}, before the "
                "weights were changed. Try a smaller --set training.learning_rate."
            )
        return loss

    def optimizer_step(self, epoch: int, batch: int, optimizer: Any, *args: Any) -> None:
        config = self.training_config
        step = self.global_step  # from 0
        share = rate(
            step,
            kind=config.lr_scheduler_type,
            warmup_steps=config.warmup_steps,
            max_steps=config.max_steps,
            min_rate=config.min_lr_rate,
        )
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
        )
        for group in optimizer.param_groups:
            group["highest_lr"] = group["lr"]
        self._settings = [
            {key: value for key, value in group.items() if key != "params"}
            for group in optimizer.param_groups
        ]
        return optimizer

    def on_train_start(self) -> None:
        """The recipe decides, also where a saved state has brought its own settings along."""
        optimizer = self.trainer.optimizers[0]
        for group, settings in zip(optimizer.param_groups, self._settings, strict=True):
            group.update(settings)
