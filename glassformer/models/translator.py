"""What all translators have in common: a source made of tokens, and a vocabulary for each side."""

from abc import abstractmethod
from typing import Any

from torch import Tensor

from glassformer.config import Config
from glassformer.models.fields import Context, VocabSize
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.nn.token_embedding import Embedding


class TranslatorConfig(Config):
    """The sizes that all translators have."""

    vocab_size: VocabSize | None = None
    """Number of source tokens; null in a recipe: the tokenizer's."""
    target_vocab_size: VocabSize | None = None
    """Number of target tokens; null: source and target share one vocabulary."""
    context_length: Context = 128
    """Maximum number of tokens of a sentence, source or target."""


class Translator(MemoryDecoder):
    """Writes the translation of a sentence."""

    def __init__(self, config: TranslatorConfig, d_embedding: int) -> None:
        super().__init__()
        vocab_size = self.needed(config.vocab_size, "a translator")
        self.config = config
        self.context_length = config.context_length
        self.num_targets = config.target_vocab_size or vocab_size
        self.embedding = Embedding(vocab_size, d_embedding)
        self.target_embedding = self.embedding
        if config.target_vocab_size is not None:
            self.target_embedding = Embedding(self.num_targets, d_embedding)

    @abstractmethod
    def encode(self, source: Tensor, is_text: Tensor | None = None) -> Any:
        """Encode sentences (B, S), padded on the right. `is_text` None: there is no padding."""

    def forward(self, source: Tensor, target: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Logits of the token after each token of `target`: (B, S), (B, T) → (B, T, V)."""
        return self.head(self.hidden(target, self.encode(source, is_text)))
