"""A Transformer that describes images: a ViT reads the patches, a decoder writes the words.

    memory = ViT(patches)                                       (B, N, D)
    x      = embed(target) + position                           (B, T, D)
    x      = block(x, memory)   for every block                 (B, T, D)
    logits = head(x)                                            (B, T, V)

Each decoder block attends to the words written so far, then to the patches: cross-attention shows
which part of the image each word comes from.
"""

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from glassformer.models import stack
from glassformer.models.memory_decoder import MemoryState
from glassformer.models.sources import CaptionConfig, CaptionDecoder
from glassformer.models.stack import Layers, Rate, StackConfig, check_length
from glassformer.models.vit import ViTEncoder, ViTEncoderConfig
from glassformer.nn.blocks import StackMemory
from glassformer.nn.cache import KVCache
from glassformer.nn.layers import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.observe import Tap
from glassformer.nn.patches import Grid


class CaptionerConfig(StackConfig, CaptionConfig):
    """The shape of an encoder of images and of a decoder of text."""

    patch_size: int = Field(8, ge=1, le=2**10)
    """Side of a patch in pixels."""
    num_encoder_layers: Layers | None = None
    """Null: num_layers, as in the decoder."""
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = "learned"
    """The positions of patches and of words."""
    initialization: Literal["bert", "torch", "zero_output"] = "zero_output"
    """bert: normal(0.02); torch: PyTorch's defaults; zero_output: normal(0.02) with residual
    outputs of zero, so that every block starts as the identity."""
    tie_weights: bool = False
    """Use the embedding matrix as the output layer."""
    dropout: Rate = 0.1

    @property
    def encoder(self) -> ViTEncoderConfig:
        """The part of it that describes the encoder."""
        values = {name: getattr(self, name) for name in ViTEncoderConfig.model_fields}
        return ViTEncoderConfig(
            **values | {"num_layers": self.num_encoder_layers or self.num_layers}
        )


class Captioner(CaptionDecoder):
    """A ViT, and a decoder with cross-attention to its patches."""

    config: CaptionerConfig

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__()
        vocab_size = self.needed(config.vocab_size, "a captioner")
        self.config = config
        self.context_length = config.context_length
        self.embedding = nn.Embedding(vocab_size, config.d_model)
        self.positions = stack.make_positions(config, config.context_length)
        self.dropout = Dropout(config.dropout)
        self.decoder = stack.make_stack(config, cross=True)
        self.decoder_norm = stack.make_final_norm(config)
        self.head = Linear(config.d_model, vocab_size, bias=False)
        if config.tie_weights:
            self.head.weight = self.embedding.weight
        stack.initialize(self, config.initialization, config.num_layers)
        self.encoder = ViTEncoder(config.encoder)  # which initialises itself

    @property
    def grid(self) -> Grid:
        return self.encoder.grid

    @property
    def taps(self) -> list[Tap]:
        return [attention.tap for attention in self.decoder.cross_attentions]

    def encode(self, source: Tensor) -> StackMemory:
        return self.decoder.project_memory(self.encoder(source))

    def hidden(self, target: Tensor, memory: StackMemory, written: KVCache | None = None) -> Tensor:
        check_length(target.size(1) + (written.length if written else 0), self.context_length)
        x, rules = self.positions.causal(self.embedding(target), written)  # (B, T, D)
        return self.decoder_norm(self.decoder(self.dropout(x), rules, written, memory))

    def read_out(self, states: Tensor) -> Tensor:
        """Logits of the next token from the states after any decoder block: (…, D) → (…, V)."""
        return self.head(self.decoder_norm(states))

    def start(self, memory: StackMemory, padding: Tensor, capacity: int) -> MemoryState:
        dtype = self.embedding.weight.dtype
        return MemoryState(memory, stack.make_cache(self.config, padding, capacity, dtype))

    def step(self, ids: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        return self.head(self.hidden(ids, state.memory, state.written)[:, -1]), state
