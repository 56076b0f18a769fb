"""Where a model looked while it wrote.

    Ada visits Timbuktu.  →  Ada besucht Timbuktu.    (T, S) each target token to source tokens
    image                 →  a red circle             (T, N) each word to places of the image

Weights come from the taps of the decoder's cross-attention, while they are listened to.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UsageError
from glassformer.inspect.capture import select
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.models.sources import Translator
from glassformer.nn.observe import listening
from glassformer.text.tokenizers import Tokenizer

END = "<end>"  # how the end of a sentence is shown
_WORD = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['’-]\w+)*|[^\w\s]")
_BYTES = re.compile(r"<0x[0-9A-F]{2}>")  # a part of a letter


@torch.inference_mode()
def attention_of_heads(model: Translator, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """(layers, H, T, S): how much each target token but the first looked at each source token."""
    if not model.taps:
        raise UsageError("this translator has no attention, so there is no alignment to show.")
    memory = model.encode(torch.tensor([source], device=model.device))
    return attention_to(memory, model, target)


@torch.inference_mode()
def attention_to(memory: Any, model: MemoryDecoder, target: Sequence[int]) -> Tensor:
    """(layers, H, T, S) for any memory of a single source, of a sentence or of an image."""
    with listening(model.taps) as heard:
        model.hidden(torch.tensor([target[:-1]], device=model.device), memory)
    # A recurrent decoder is heard once for every token, and has one head.
    layers = [seen[0][0] if seen[0].dim() == 4 else torch.cat(seen, dim=1) for seen in heard]
    return torch.stack(layers).cpu()


def select_weights(heads: Tensor, layer: int | None = None, head: int | None = None) -> Tensor:
    """(T, S): those of one layer and head; without `layer` or `head`, the mean of all."""
    layers = select("layer", None if layer is None else [layer], heads.size(0))
    selected = select("head", None if head is None else [head], heads.size(1))
    return heads[layers][:, selected].mean(dim=(0, 1))


def shown_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Tokens as a reader recognises them."""
    return [END if id == tokenizer.end_of_text else tokenizer.token(id) for id in ids]


def word_starts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[bool]:
    """Whether a word begins with each token. Punctuation is a word of its own, unless it joins two
    parts of a word, as in "don't"."""
    shown = shown_tokens(tokenizer, ids)
    if not (tokenizer.carries_blanks or tokenizer.kind == "char"):
        return [not token.startswith("##") for token in shown]
    letters = [
        token if id != tokenizer.end_of_text else "" for id, token in zip(ids, shown, strict=True)
    ]
    letters = [_BYTES.sub(lambda match: "x" * len(match[0]), token) for token in letters]
    starts = {match.start() for match in _WORD.finditer("".join(letters))}
    begins, position = [], 0
    for token in letters:
        first = position + len(token) - len(token.lstrip())
        # The end of the text is a word of its own; a blank belongs to the word before it.
        begins.append(not token or (not token.isspace() and first in starts))
        position += len(token)
    return begins
