"""What all models with a linear head have in common."""

import torch
from torch import nn


class HeadedModel(nn.Module):
    """A model whose last layer is `head`."""

    head: nn.Linear

    @property
    def device(self) -> torch.device:
        return self.head.weight.device
