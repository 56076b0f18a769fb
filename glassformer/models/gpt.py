"""GPT: a causal language model. Each position predicts the next token from itself and the past.

    x      = embed(ids) + position            (B, T, D)
    x      = block(x)   for every block       (B, T, D)
    logits = norm(x) · vocabularyᵀ            (B, T, V)

The causal mask lets one pass train every position at once. The lecture's model, GPT-2 and current
models differ only in their configs: see `presets.py`.
"""

from typing import Any, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from glassformer.config import Config, Count
from glassformer.models import stack
from glassformer.models.heads import LanguageModel
from glassformer.models.stack import Context, Heads, Layers, StackConfig, VocabSize, Width
from glassformer.nn.cache import KVCache
from glassformer.nn.layers import Activation, Dropout, Embedding
from glassformer.nn.linear import Linear
from glassformer.nn.positions import RotaryStretch


class RotaryStretchConfig(Config):
    """How much slower rotary positions turn: all alike, or, with original_length, only those that
    turn less than `high` times within it (Llama 3.1)."""

    factor: float = Field(gt=0)
    original_length: Count | None = Field(None, ge=1)
    low: float = Field(1.0, gt=0)
    high: float = Field(4.0, gt=0)

    @model_validator(mode="after")
    def _low_is_lower(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low is {self.low}, but must be less than high, {self.high}")
        return self


class GPTConfig(StackConfig):
    """The shape of a GPT. The defaults are GPT-2's, at the size of a small experiment."""

    vocab_size: VocabSize | None = None
    """Number of tokens; null in a recipe: the tokenizer's."""
    context_length: Context = 256
    """Maximum number of tokens."""
    num_kv_heads: Count | None = Field(None, ge=1, le=2**20)
    """Heads of keys and values, shared by groups of query heads; null: one per query head."""
    head_dim: Count | None = Field(None, ge=1, le=2**20)
    """Width of one head; null: d_model / num_heads."""
    d_embedding: Count | None = Field(None, ge=1, le=2**20)
    """Width of the token embedding, projected to d_model if they differ; null: d_model."""
    rotary_base: float = Field(10000.0, gt=0)
    rotary_stretch: RotaryStretchConfig | None = None
    """Slower rotations of a model whose context was extended after its training; null: none."""
    output_bias: bool = False
    """A bias on the logits."""
    tie_weights: bool = True
    """Use the embedding matrix as the output layer."""
    initialization: Literal["gpt2", "torch", "zero_output"] = "gpt2"
    """gpt2: normal(0.02), residual outputs scaled down with depth; torch: PyTorch's defaults;
    zero_output: residual outputs start at zero, so that every block starts as the identity."""

    num_layers: Layers = 6
    d_model: Width = 384
    num_heads: Heads = 6
    activation: Activation = "gelu_tanh"

    @property
    def width_of_head(self) -> int:
        return self.head_dim or self.d_model // self.num_heads

    @property
    def stretch(self) -> RotaryStretch | None:
        stretch = self.rotary_stretch
        return None if stretch is None else RotaryStretch(**stretch.model_dump())

    @property
    def kv_heads(self) -> int:
        return self.num_kv_heads or self.num_heads

    def explicit(self) -> dict[str, Any]:
        return super().explicit() | {
            "head_dim": self.width_of_head,
            "num_kv_heads": self.kv_heads,
            "d_embedding": self.d_embedding or self.d_model,
        }

    def check_heads(self) -> None:
        if self.head_dim is None:
            self.check_multiple("d_model", "num_heads", "change one of them, or set head_dim")
        if self.num_kv_heads is not None:
            self.check_multiple("num_heads", "num_kv_heads")

    @model_validator(mode="after")
    def _can_be_tied(self) -> Self:
        if self.tie_weights and self.d_embedding not in (None, self.d_model):
            raise ValueError("tie_weights needs d_embedding equal to d_model")
        return self


class GPT(LanguageModel):
    """A stack of causal blocks between an embedding and an output layer."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        vocab_size = self.needed(config.vocab_size, "a GPT")
        self.config = config
        self.context_length = config.context_length
        d_embedding = config.d_embedding or config.d_model
        self.embedding = Embedding(vocab_size, d_embedding)
        is_narrow = d_embedding != config.d_model
        self.widen = Linear(d_embedding, config.d_model) if is_narrow else nn.Identity()
        self.positions = stack.make_positions(
            config, config.context_length, config.rotary_base, config.stretch
        )
        self.dropout = Dropout(config.dropout)
        self.blocks = stack.make_stack(config)
        self.final_norm = stack.make_final_norm(config)
        self.head = Linear(config.d_model, vocab_size, bias=config.output_bias)
        if config.tie_weights:
            self.head.weight = self.embedding.weight
        stack.initialize(self, config.initialization, config.num_layers)

    @property
    def token_vectors(self) -> Tensor:
        """The embeddings of all tokens, as wide as the states of the blocks."""
        return self.widen(self.embedding.weight)

    def hidden(self, ids: Tensor, state: KVCache | None = None) -> Tensor:
        stack.check_length(ids.size(1) + (state.length if state else 0), self.context_length)
        x = self.widen(self.embedding(ids))  # (B, T, D)
        x, rules = self.positions.causal(x, state)
        return self.final_norm(self.blocks(self.dropout(x), rules, state))

    def read_out(self, states: Tensor) -> Tensor:
        """Logits of the next token from the states after any block: (…, D) → (…, V)."""
        return self.head(self.final_norm(states))

    def wired(self, prefix: str = "") -> stack.StreamWiring:
        """The names of its modules, in a model that has it under this prefix."""
        return stack.StreamWiring(
            stack=f"{prefix}blocks",
            embedding=f"{prefix}embedding",
            widen=f"{prefix}widen",
            positions=f"{prefix}positions",
            final_norm=f"{prefix}final_norm",
            is_causal=True,
        )

    def wiring(self) -> stack.Wiring:
        return stack.Wiring((self.wired(),), ("final_norm", "head"))

    def start(self, memory: None, padding: Tensor, capacity: int) -> KVCache:
        return stack.make_cache(self.config, padding, capacity, self.embedding.weight.dtype)
