"""The input layer: a vector for each token, or for the numbers of each time step."""

from torch import Tensor, nn

from glassformer.errors import GlassformerError
from glassformer.nn.linear import Linear
from glassformer.nn.observe import Tap


class Embedding(nn.Embedding):
    """A table of vectors. A call can use others in their place (`observe.changing`)."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__(num_embeddings, embedding_dim)
        self.tap = Tap()
        """Passes the vectors that were looked up, (…, D)."""

    def forward(self, input: Tensor) -> Tensor:
        return self.tap.changed(super().forward(input))


def make_embedding(vocab_size: int | None, num_features: int | None, width: int) -> nn.Module:
    """(B, T) tokens → (B, T, width) by a table, or (B, T, F) numbers by a linear layer."""
    if num_features is not None:
        return Linear(num_features, width)
    if vocab_size is None:
        raise GlassformerError(
            "the model has no input size. Set vocab_size, the number of tokens, or num_features, "
            "the number of values per time step."
        )
    return Embedding(vocab_size, width)
