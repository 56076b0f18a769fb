"""Multi-scale ViT: from many small places with few channels to few places with many.

    x = norm(embed(patches))                      (B, rows, columns, D)
    for every stage:
        x = block(x)   for every block            attention in windows, every second one shifted
        x = merge(x)   but after the last         (B, rows / 2, columns / 2, 2 · D)
    logits = head(mean(norm(x)))                  (B, C)

The first stages see fine detail near by, the last ones the whole image. Attention in windows makes
the cost grow with the area of the image, not with its square. This is Swin (Liu et al., 2021).
"""

from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Count
from glassformer.models import sources
from glassformer.models.heads import LabelsConfig
from glassformer.models.sources import ImageClassifier, ImageConfig
from glassformer.models.stack import Heads, Layers, Rate, Width, initialize
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Block
from glassformer.nn.layers import Activation, Dropout, FeedForward, NormKind, norm
from glassformer.nn.patches import Grid
from glassformer.nn.windows import PatchMerging, WindowAttention, WindowShift

Stages = Annotated[tuple[Layers, ...], Field(min_length=1, max_length=12)]
HeadsOfStages = Annotated[tuple[Heads, ...], Field(min_length=1, max_length=12)]


class MultiscaleViTConfig(ImageConfig, LabelsConfig):
    """The shape of every stage. The defaults are Swin's, at the size of a small experiment."""

    usual_places: ClassVar[int] = 16  # in the first stage

    patch_size: Count = Field(4, ge=1, le=2**10)
    num_layers: Stages = (2, 2)
    """Number of blocks in each stage."""
    d_model: Width = 64
    """Width of the first stage; every stage is twice as wide as the one before."""
    num_heads: HeadsOfStages = (2, 4)
    """Number of heads in each stage."""
    window_size: Count = Field(7, ge=1, le=2**8)
    """Side of a window, in places of the grid."""
    window_shift: WindowShift = "each_side"
    """each_side: windows are shifted along every side that is longer than a window; both_sides:
    only if both sides are, as in Swin."""
    mlp_ratio: float = Field(4.0, gt=0, le=64)
    """Width of the hidden feed-forward layer, in widths of the stage."""
    norm: NormKind = "layer"
    norm_eps: float = Field(1e-5, gt=0)
    qk_norm: bool = False
    """Normalise each query and key head before their dot product."""
    activation: Activation = "gelu"
    bias: bool = True
    """Biases in attention, feed-forward layers and norms."""
    dropout: Rate = 0.0
    attention_dropout: Rate = 0.0
    initialization: Literal["bert", "torch", "zero_output"] = "bert"
    """bert: normal(0.02); torch: PyTorch's defaults; zero_output: normal(0.02) with residual
    outputs of zero, so that every block starts as the identity."""

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of every stage."""
        return tuple(self.d_model * 2**stage for stage in range(len(self.num_layers)))

    @model_validator(mode="after")
    def _stages_fit(self) -> Self:
        if len(self.num_layers) != len(self.num_heads):
            raise ValueError(
                f"num_layers has {len(self.num_layers)} stages and num_heads "
                f"{len(self.num_heads)}; give one number per stage in both"
            )
        for width, heads in zip(self.widths, self.num_heads, strict=True):
            if width % heads:
                raise ValueError(
                    f"a stage of width {width} cannot have {heads} heads; choose a divisor of "
                    "the width"
                )
        return self


class Stage(nn.ModuleList):
    """Blocks of one width, every second one with shifted windows."""

    def __init__(self, config: MultiscaleViTConfig, width: int, heads: int, depth: int) -> None:
        super().__init__(
            _block(config, width, heads, is_shifted=bool(index % 2)) for index in range(depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self:
            x = block(x)
        return x


class MultiscaleEncoder(nn.Module):
    """Images to the vectors of the last, coarsest grid: (B, C, H, W) → (B, rows, columns, D)."""

    def __init__(self, config: MultiscaleViTConfig) -> None:
        super().__init__()
        self.config = config
        widths, make_norm = config.widths, partial(_norm, config)
        self.embedding = sources.make_embedding(config, config.d_model)
        self.embedding_norm = make_norm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.stages = nn.ModuleList(
            Stage(config, *shape)
            for shape in zip(widths, config.num_heads, config.num_layers, strict=True)
        )
        self.merging = nn.ModuleList(
            PatchMerging(width, 2 * width, make_norm(4 * width)) for width in widths[:-1]
        )
        self.final_norm = make_norm(widths[-1])
        initialize(self, config.initialization, sum(config.num_layers))
        sources.initialize_convolutions(self)

    @property
    def grids(self) -> tuple[Grid, ...]:
        """Rows and columns of every stage for an image of the config's size."""
        grids = [self.embedding.grid(*self.config.size)]
        for _ in self.merging:
            rows, columns = grids[-1]
            grids.append((-(-rows // 2), -(-columns // 2)))
        return tuple(grids)

    def forward(self, pixels: Tensor) -> Tensor:
        sources.check_pixels(tuple(pixels.shape), self.config.channels)
        grid = self.embedding.grid(*pixels.shape[2:])
        x = self.embedding(pixels).unflatten(1, grid)  # (B, rows, columns, D)
        x = self.dropout(self.embedding_norm(x))
        for index, stage in enumerate(self.stages):
            x = self.merging[index - 1](x) if index else x
            x = stage(x)
        return self.final_norm(x)


class MultiscaleViT(ImageClassifier):
    """An encoder with stages, and the mean of its last grid."""

    config: MultiscaleViTConfig
    body_name = "encoder"

    def __init__(self, config: MultiscaleViTConfig) -> None:
        super().__init__(config, config.widths[-1])
        self.encoder = MultiscaleEncoder(config)

    @property
    def layers(self) -> list[tuple[MultiHeadAttention, Grid]]:
        return [
            (block.attention, grid)
            for stage, grid in zip(self.encoder.stages, self.encoder.grids, strict=True)
            for block in stage.modules()
            if isinstance(block, Block)
        ]

    def represent(self, pixels: Tensor, is_text: Tensor | None = None) -> Tensor:
        return self.encoder(pixels).mean(dim=(1, 2))  # (B, D)


def _block(config: MultiscaleViTConfig, width: int, heads: int, *, is_shifted: bool) -> Block:
    of_head = partial(_norm, config, width // heads)
    attention = WindowAttention(
        width,
        heads,
        window_size=config.window_size,
        is_shifted=is_shifted,
        window_shift=config.window_shift,
        bias=config.bias,
        query_norm=of_head() if config.qk_norm else None,
        key_norm=of_head() if config.qk_norm else None,
        dropout=config.attention_dropout,
    )
    hidden = max(1, int(config.mlp_ratio * width))
    feedforward = FeedForward(width, hidden, config.activation, config.bias)
    return Block(attention, feedforward, partial(_norm, config, width), dropout=config.dropout)


def _norm(config: MultiscaleViTConfig, width: int) -> Any:
    return norm(config.norm, width, config.norm_eps, config.bias)
