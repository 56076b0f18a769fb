"""How the parts of a Transformer are connected, by their names, so that it can run outside torch.

    stream     ids → embedding → positions → stack of blocks
    read-out   state after any block → logits
               for a label of the whole text: normed states → one vector → logits

A model that can say this of itself can be carried in a page and computed there (`story/live.py`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StreamWiring:
    """One sequence of tokens on its way through one stack. None: there is no such part."""

    stack: str
    embedding: str
    positions: str
    final_norm: str
    """Applied to the output of the stack."""
    is_causal: bool
    widen: str | None = None
    """Projects the embeddings to the width of the model."""
    is_scaled: bool = False
    """Embeddings are multiplied by √d_model."""
    segments: str | None = None
    """A table whose first row is added to every embedding."""
    embedding_norm: str | None = None
    """Applied to the sum of the embeddings."""
    memory: str | None = None
    """The stack whose output is attended to."""


@dataclass(frozen=True)
class Wiring:
    """The streams in the order of their computation, and the modules that read the last one out."""

    streams: tuple[StreamWiring, ...]
    read_out: tuple[str, ...]
    """Names of modules; a function, which is none, is named after a colon: ":tanh"."""
    pooling: str | None = None
    """How the states of a text become one vector before the read-out: mean, max, first, last, or
    the name of a module that weighs them by the rarity of their tokens. None: each is read out."""
