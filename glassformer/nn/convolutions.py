"""Convolutions on a grid of vectors: every place looks at its neighbours.

x = x + convolution(relu(norm(x)))          (B, D, rows, columns), twice
"""

from torch import Tensor, nn


class ConvolutionalBlock(nn.Module):
    """Two convolutions of 3×3 places, added to their input.

    Each image is normalised on its own, not with the others of its batch, so that it is read alike
    alone and among others.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.GroupNorm(1, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(1, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)
