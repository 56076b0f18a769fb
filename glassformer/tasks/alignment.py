"""Where a model looked while it wrote, and the chapters of a report that show it.

    Ada visits Timbuktu.  →  Ada besucht Timbuktu.    (T, S) each target token to source tokens
    image                 →  a red circle             (T, N) each word to places of the image

Weights come from the taps of the decoder's cross-attention, while they are listened to.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.data.images import data_uri
from glassformer.errors import UsageError
from glassformer.inspect.alignment import WordPlaces
from glassformer.inspect.capture import select
from glassformer.inspect.chapters import Chapter
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.models.sources import Translator
from glassformer.nn.observe import listening
from glassformer.text.tokenizers import Tokenizer

END = "<end>"  # how the end of a sentence is shown
_WORD = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['’-]\w+)*|[^\w\s]")
_BYTES = re.compile(r"<0x[0-9A-F]{2}>")  # a part of a letter
LARGEST = 128  # pixels of a side of an image in a report
MOST_WORDS = 24  # of a caption whose panels are shown


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
    own = select("head", None if head is None else [head], heads.size(1))
    return heads[layers][:, own].mean(dim=(0, 1))


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


# --- images: the image again for each word, bright where the model looked ---


def caption_places(looks: Iterable[WordPlaces]) -> list[Chapter]:
    """For every word of these captions. Long captions are left out."""
    scenes = [
        _scene(look.caption, look.pixels, zip(look.words, look.weights, strict=True))
        for look in looks
        if len(look.words) <= MOST_WORDS
    ]
    note = "Panels are bright where the model looked before it wrote that word. The frame is the "
    note += "place with the largest weight, which is given below."
    return [Chapter("Where each word looked", "places", {"scenes": scenes}, note)] if scenes else []


def image_places(rollouts: Iterable[tuple[str, Any, Any]]) -> list[Chapter]:
    """Attention rollout for images: a title, the pixels (H, W, C), and what `rollout` returned."""
    scenes = [
        _scene(title, pixels, [(rollout.label, rollout.weights)])
        for title, pixels, rollout in rollouts
    ]
    note = "Attention followed back through all layers (rollout): the second image is bright where "
    note += "patches contributed most. The frame is the place with the largest weight, given below."
    return [Chapter("Where it looked", "places", {"scenes": scenes}, note)] if scenes else []


def _scene(title: str, pixels: Any, panels: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """An image, and for each label where the model looked."""
    return {
        "title": title,
        "image": data_uri(pixels, LARGEST),
        "size": [*pixels.shape[:2]],
        "panels": [
            {"label": label, "weights": weights.round(4).tolist()} for label, weights in panels
        ],
    }
