"""ViT: an image is a sequence of patches, read by a Transformer encoder.

    x = embed(patches) + position             (B, N, D)
    x = block(x)   for every block            (B, N, D)
    logits = head(pool(x))                    (B, C)

Three ways to pool. class: an extra token that attends to all patches (Dosovitskiy et al., 2021);
mean: the mean of all patches; sequence: a weighted mean, whose weights are learned (Hassani et al.,
2021).
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from glassformer.models import sources, stack
from glassformer.models.heads import LabelsConfig
from glassformer.models.sources import ImageClassifier, ImageConfig
from glassformer.models.stack import StackConfig
from glassformer.nn.attention import NO_RULES, MultiHeadAttention
from glassformer.nn.blocks import Block
from glassformer.nn.layers import Dropout
from glassformer.nn.observe import Tap
from glassformer.nn.patches import Grid, GridPositions
from glassformer.nn.pooling import SequencePooling, pool
from glassformer.nn.positions import Positions


class ViTEncoderConfig(ImageConfig, StackConfig):
    """The shape of an encoder of images."""

    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    norm_eps: float = Field(1e-6, gt=0)
    initialization: Literal["bert", "torch", "zero_output"] = "bert"
    """bert: normal(0.02); torch: PyTorch's defaults; zero_output: normal(0.02) with residual
    outputs of zero, so that every block starts as the identity."""

    @property
    def has_class_token(self) -> bool:
        """Whether a token without a place stands before the patches."""
        return False


class ViTEncoder(nn.Module):
    """Images to a sequence of vectors: one per patch, in raster order, after the class token."""

    def __init__(self, config: ViTEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = sources.make_embedding(config, config.d_model)
        num_extra = int(config.has_class_token)
        self.class_token = nn.Parameter(torch.zeros(config.d_model)) if num_extra else None
        rows, columns = self.grid
        self.positions: Positions
        if config.positions == "learned":
            self.positions = GridPositions(self.grid, config.d_model, num_extra)
        else:
            self.positions = stack.make_positions(config, num_extra + rows * columns)
        self.dropout = Dropout(config.dropout)
        self.blocks = stack.make_stack(config)
        self.final_norm = stack.make_final_norm(config)
        stack.initialize(self, config.initialization, config.num_layers)
        sources.initialize_convolutions(self)

    @property
    def grid(self) -> Grid:
        """Rows and columns of the patches of an image of the config's size."""
        return self.embedding.grid(*self.config.size)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, C, H, W) → (B, N, D), N + 1 with a class token. The size of the images may differ
        from the config's: positions are interpolated."""
        sources.check_pixels(tuple(pixels.shape), self.config.channels)
        x = self.embedding(pixels)  # (B, N, D)
        if self.class_token is not None:
            first = self.class_token.expand(x.size(0), 1, -1)  # (B, 1, D)
            x = torch.cat([first.to(x.dtype), x], dim=1)  # (B, N + 1, D)
        if isinstance(self.positions, GridPositions):
            x = self.positions.on_grid(x, self.embedding.grid(*pixels.shape[2:]))
            rules = NO_RULES
        else:
            x, rules = self.positions.both_ways(x)
        return self.final_norm(self.blocks(self.dropout(x), rules))


class ViTConfig(ViTEncoderConfig, LabelsConfig):
    """The shape of an encoder of images, and how its vectors are pooled."""

    pooling: Literal["class", "mean", "sequence"] = "class"

    @property
    def has_class_token(self) -> bool:
        return self.pooling == "class"


class ViT(ImageClassifier):
    """An encoder of images whose vectors are pooled into one."""

    config: ViTConfig
    body_name = "encoder"

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config, config.d_model)
        self.encoder = ViTEncoder(config)
        self.pooler = SequencePooling(config.d_model) if config.pooling == "sequence" else None

    @property
    def num_extra(self) -> int:
        return int(self.config.has_class_token)

    @property
    def layers(self) -> list[tuple[MultiHeadAttention, Grid]]:
        blocks = self.encoder.blocks
        return [
            (block.attention, self.encoder.grid) for block in blocks if isinstance(block, Block)
        ]

    @property
    def pooling_tap(self) -> Tap | None:
        return None if self.pooler is None else self.pooler.tap

    def represent(self, pixels: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self._pooled(self.encoder(pixels))

    def read_out(self, states: Tensor) -> Tensor:
        """Logits from the states after any block: (B, N, D) → (B, C)."""
        return self.head(self._pooled(self.encoder.final_norm(states)))

    def _pooled(self, states: Tensor) -> Tensor:
        if self.pooler is not None:
            return self.pooler(states)  # (B, D)
        return pool(states, pooling="first" if self.config.pooling == "class" else "mean")
