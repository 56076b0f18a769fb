"""Text ↔ ids: tokenizers, how they are learned, and text that arrives token by token.

`tokenizers` has the one `Tokenizer` that every model of text uses, and learns new ones;
`chunks` cuts text that is too long to encode at once; `streaming` turns ids back into text while
they are still being generated. Nothing here knows of tensors or models.
"""

from glassformer.text.streaming import StopFilter, TextStream
from glassformer.text.tokenizers import (
    END_OF_TEXT,
    Kind,
    Tokenizer,
    TokenizerConfig,
    choose_kind,
    default_vocab_size,
    train_tokenizer,
)

__all__ = [
    "END_OF_TEXT",
    "Kind",
    "StopFilter",
    "TextStream",
    "Tokenizer",
    "TokenizerConfig",
    "choose_kind",
    "default_vocab_size",
    "train_tokenizer",
]
