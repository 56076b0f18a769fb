"""Where a translator looked: attention from each target token to each source token, and the words
that it copies from there because it does not know them.

Ada visits Timbuktu.  →  Ada besucht <|unk|>.  →  Ada besucht Timbuktu.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from glassformer.errors import UsageError
from glassformer.models.translator import Translator
from glassformer.nn.observe import listening
from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.text.tokenizers import Tokenizer

END = "<end>"  # how the end of a sentence is shown


@torch.inference_mode()
def attention_weights(
    model: Translator,
    source: Sequence[int],
    target: Sequence[int],
    layer: int | None = None,
    head: int | None = None,
) -> Tensor:
    """(T, S): how much each target token but the first looked at each source token. Without `layer`
    or `head`, the mean of all."""
    taps = model.taps
    if not taps:
        raise UsageError("this translator has no attention, so there is no alignment to show.")
    if layer is not None and not 0 <= layer < len(taps):
        raise UsageError(f"there is no layer {layer}: the last one is {len(taps) - 1}.")
    memory = model.encode(torch.tensor([source], device=model.device))
    with listening(taps if layer is None else [taps[layer]]) as heard:
        model.hidden(torch.tensor([target[:-1]], device=model.device), memory)
    # A recurrent decoder is heard once for every token, and has one head.
    layers = [seen[0][0] if seen[0].dim() == 4 else torch.cat(seen, dim=1) for seen in heard]
    weights = torch.stack(layers).cpu()  # (layers, H, T, S)
    if head is not None and not 0 <= head < weights.size(1):
        raise UsageError(f"there is no head {head}: the last one is {weights.size(1) - 1}.")
    return (weights if head is None else weights[:, head : head + 1]).mean(dim=(0, 1))


def shown_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Tokens as a reader recognises them."""
    return [END if id == tokenizer.end_of_text else tokenizer.token(id) for id in ids]


def begins_word(tokenizer: Tokenizer, ids: Sequence[int]) -> list[bool]:
    """Whether a word begins with each token."""
    shown = shown_tokens(tokenizer, ids)
    if tokenizer.carries_blanks:
        return [token == END or token.startswith(" ") for token in shown]
    if tokenizer.kind == "char":
        before = ["", *shown]
        return [token == END or last == " " for token, last in zip(shown, before, strict=False)]
    return [not token.startswith("##") for token in shown]


def decode_with_unknown(
    model: Translator,
    preprocessing: PairPreprocessing,
    source: str,
    prefix: str,
    ids: Sequence[int],
    copies: bool,
) -> str:
    """The text of a translation, `ids`, that begins with `prefix`. Unknown words of the prefix stay
    as they are; the others are copied from the source if `copies`."""
    target = preprocessing.target
    text, unknown = preprocessing.decode(ids), target.unknown
    if unknown is None or unknown not in ids:
        return text
    mark = target.token(unknown)
    given = _unknown_words(target, prefix)
    words = [*given, *([mark] * (ids.count(unknown) - len(given)))]
    if copies and model.taps and len(words) > len(given):
        words[len(given) :] = _copied(model, preprocessing, source, ids)[len(given) :]
    parts = text.split(mark)
    if len(parts) != len(words) + 1:  # a word of the text looks like the mark
        return text
    return "".join(part + word for part, word in zip(parts, [*words, ""], strict=True))


def _unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    places = zip(tokenizer.encode(text), tokenizer.spans(text), strict=True)
    return [text[first:last] for id, (first, last) in places if id == tokenizer.unknown]


def _copied(
    model: Translator, preprocessing: PairPreprocessing, source: str, ids: Sequence[int]
) -> list[str]:
    """For each unknown token of a translation, the source word that it looked at most: one that the
    model does not know either, if there is any."""
    (row,) = preprocessing.encode_source([source])
    target = [preprocessing.start, *ids, preprocessing.end]
    weights = attention_weights(model, row, target)[:, :-1]  # (T, S), without the source's end
    is_unknown = torch.tensor([id == preprocessing.source.unknown for id in row[:-1]])
    if is_unknown.any():
        weights = weights.masked_fill(~is_unknown, -1)
    spans = preprocessing.source.spans(source)
    unknown = preprocessing.target.unknown
    places = [int(weights[step].argmax()) for step, id in enumerate(ids) if id == unknown]
    return [source[first:last] for first, last in (spans[place] for place in places)]
