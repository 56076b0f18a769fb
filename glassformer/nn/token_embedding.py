"""The input layer: a vector for each token, or for the numbers of each time step."""

from torch import nn

from glassformer.errors import GlassformerError
from glassformer.nn.linear import Linear


def make_embedding(vocab_size: int | None, num_features: int | None, width: int) -> nn.Module:
    """(B, T) tokens → (B, T, width) by a table, or (B, T, F) numbers by a linear layer."""
    if num_features is not None:
        return Linear(num_features, width)
    if vocab_size is None:
        raise GlassformerError(
            "the model has no input size. Set vocab_size, the number of tokens, or num_features, "
            "the number of values per time step."
        )
    return nn.Embedding(vocab_size, width)
