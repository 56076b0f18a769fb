"""Where a translator looked: attention from each target token to each source token, and the words
that it copies from there because it does not know them.

Ada visits Timbuktu.  →  Ada besucht <|unk|>.  →  Ada besucht Timbuktu.
"""

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UsageError
from glassformer.inspect.alignment import Alignment
from glassformer.inspect.capture import select
from glassformer.inspect.chapters import Chapter
from glassformer.models.memory_decoder import MemoryDecoder
from glassformer.models.sources import Translator
from glassformer.nn.observe import listening
from glassformer.preprocessing.text import PairPreprocessing
from glassformer.tasks.translate.scores import PoorTranslation
from glassformer.text.tokenizers import Tokenizer, readable

END = "<end>"  # how the end of a sentence is shown
_WORD = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['’-]\w+)*|[^\w\s]")
_BYTES = re.compile(r"<0x[0-9A-F]{2}>")  # a part of a letter
SHOWN_TOKENS = 40  # of a sentence whose alignment is in a report


@torch.inference_mode()
def attention_of_heads(model: Translator, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """(layers, H, T, S): how much each target token but the first looked at each source token."""
    if not model.taps:
        raise UsageError("this translator has no attention, so there is no alignment to show.")
    memory = model.encode(torch.tensor([source], device=model.device))
    return attention_to(memory, model, target)


@torch.inference_mode()
def attention_to(memory: Any, model: MemoryDecoder, target: Sequence[int]) -> Tensor:
    """The same for any memory of a single source."""
    with listening(model.taps) as heard:
        model.hidden(torch.tensor([target[:-1]], device=model.device), memory)
    # A recurrent decoder is heard once for every token, and has one head.
    layers = [seen[0][0] if seen[0].dim() == 4 else torch.cat(seen, dim=1) for seen in heard]
    return torch.stack(layers).cpu()


def chosen_weights(heads: Tensor, layer: int | None = None, head: int | None = None) -> Tensor:
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
    begins, place = [], 0
    for token in letters:
        first = place + len(token) - len(token.lstrip())
        # The end of the text is a word of its own; a blank belongs to the word before it.
        begins.append(not token or (not token.isspace() and first in starts))
        place += len(token)
    return begins


def alignment_chapter(
    model: Translator, preprocessing: PairPreprocessing, answers: Sequence[PoorTranslation]
) -> list[Chapter]:
    """Where the model looked in its best, its middling and its worst translation, if it attends."""
    ranked = sorted((answer for answer in answers if answer.text), key=lambda answer: -answer.score)
    sources = preprocessing.encode_source([answer.source for answer in ranked])
    targets = preprocessing.encode_target([answer.text for answer in ranked])
    rows = zip(ranked, sources, targets, strict=True)
    fitting = [row for row in rows if max(map(len, row[1:])) <= SHOWN_TOKENS]
    if not (model.taps and fitting):
        return []
    places = sorted({0, len(fitting) // 2, len(fitting) - 1})
    maps = []
    for answer, source, target in (fitting[place] for place in places):
        aligned = Alignment(
            source=answer.source,
            target=answer.text,
            source_tokens=shown_tokens(preprocessing.source, source),
            target_tokens=shown_tokens(preprocessing.target, target[1:]),
            weights=chosen_weights(attention_of_heads(model, source, target)).double().numpy(),
        )
        words = aligned.in_words(
            word_starts(preprocessing.source, source), word_starts(preprocessing.target, target[1:])
        )
        maps.append(
            {
                "title": f"chrF {answer.score:.1f}",
                "columns": words.source_tokens,
                "rows": words.target_tokens,
                "weights": words.weights.tolist(),
            }
        )
    note = "The best, a middling and the worst of the short translations. Rows are words of the "
    note += "translation, columns those of the source; the mean over all layers and heads."
    return [Chapter("Alignment", "heat_maps", {"maps": maps}, note)]


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
    given = list(target.unknown_words(prefix))
    words = [*given, *([mark] * (ids.count(unknown) - len(given)))]
    if copies and model.taps and len(words) > len(given):
        words[len(given) :] = _copied(model, preprocessing, source, ids)[len(given) :]
    parts = text.split(mark)
    if len(parts) != len(words) + 1:  # a word of the text looks like the mark
        return text
    return "".join(part + word for part, word in zip(parts, [*words, ""], strict=True))


def _copied(
    model: Translator, preprocessing: PairPreprocessing, source: str, ids: Sequence[int]
) -> list[str]:
    """For each unknown token of a translation, the source word that it looked at most: one that the
    model does not know either, if there is any."""
    (row,) = preprocessing.encode_source([source])
    target = [preprocessing.start, *ids, preprocessing.end]
    weights = chosen_weights(attention_of_heads(model, row, target))[
        :, :-1
    ]  # (T, S), without the source's end
    is_unknown = torch.tensor([id == preprocessing.source.unknown for id in row[:-1]])
    if is_unknown.any():
        weights = weights.masked_fill(~is_unknown, -1)
    (text,) = readable(preprocessing.source, [source])  # as it was encoded
    spans = preprocessing.source.spans(text)
    unknown = preprocessing.target.unknown
    places = [int(weights[step].argmax()) for step, id in enumerate(ids) if id == unknown]
    return [text[first:last].strip() for first, last in (spans[place] for place in places)]
