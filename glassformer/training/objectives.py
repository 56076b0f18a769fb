"""What is being learned: one LightningModule per objective, whatever the model.

next token    loss = mean of -log p(t_n | t_<n), at all positions of all windows at once
"""

from functools import partial
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor

from glassformer.errors import GlassformerError
from glassformer.models.language_model import LanguageModel
from glassformer.training.losses import next_token_loss
from glassformer.training.optim import adamw
from glassformer.training.recipe import DecidedTraining
from glassformer.training.schedule import rate


class NextToken(lightning.LightningModule):
    """Teaches a language model to predict each token from those before it."""

    def __init__(self, model: LanguageModel, config: DecidedTraining) -> None:
        super().__init__()
        self.model = model
        self.training_config = config

    def training_step(self, batch: Tensor, number: int) -> Tensor:
        inputs, targets = batch[:, :-1], batch[:, 1:]  # (B, T): the targets are one further on
        loss = next_token_loss(self.model.hidden(inputs), self.model.head, targets)
        if not torch.isfinite(loss):
            raise GlassformerError(
                f"the loss became {loss.item()} at step {self.global_step + 1:,}, before the "
                "weights were changed. Try a smaller --set training.learning_rate."
            )
        return loss

    def configure_optimizers(self) -> Any:
        config = self.training_config
        optimizer = adamw(
            self.model,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=(config.adam_beta1, config.adam_beta2),
        )
        share = partial(
            rate,
            kind=config.lr_scheduler_type,
            warmup_steps=config.warmup_steps,
            max_steps=config.max_steps,
            min_rate=config.min_lr_rate,
        )
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }
