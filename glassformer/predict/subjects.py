"""Models with an input, as `inspection` looks at them: what differs between tasks."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import UsageError
from glassformer.inspection.capture import stacks_of
from glassformer.inspection.inspection import Stream, Subject
from glassformer.models import name_of
from glassformer.models.bert import Bert
from glassformer.models.labeller import Labeller, TokenTagger
from glassformer.models.language_model import LanguageModel
from glassformer.models.translator import Translator
from glassformer.predict.search_tree import search_tree
from glassformer.preprocessing.pair import PairPreprocessing
from glassformer.preprocessing.text import MaskedTextPreprocessing, TextPreprocessing
from glassformer.text.framing import Frame
from glassformer.text.tokenizers import Tokenizer

SPARE_STEPS = 4  # by which a translation that is searched may exceed the one that is shown


def of_language(model: LanguageModel, preprocessing: TextPreprocessing, text: str) -> Subject:
    """A text that a language model reads; each position predicts the next token. Of a text longer
    than the context, the end is read."""
    tokenizer = preprocessing.tokenizer
    whole = tokenizer.encode(not_empty(text))
    ids = whole[-model.context_length :]
    row = torch.tensor([ids], device=model.device)
    return Subject(
        model=name_of(model),
        text=text,
        streams=(_stream(model, "text", tokenizer, ids),),
        run=lambda: model(row)[0],
        name_of=tokenizer.token,
        predicts="next",
        actual=[*ids[1:], None],
        separator=_separator(tokenizer),
        search=lambda: search_tree(
            model,
            ids,
            tokenizer.token,
            end=tokenizer.end_of_text,
            device=model.device,
            prefer_complete=False,
        ),
        num_left_out=len(whole) - len(ids),
        part_left_out="beginning",
        preprocessing=preprocessing,
        **_inside(model),
    )


def of_masked(
    model: Bert, preprocessing: MaskedTextPreprocessing, text: str, whole: Sequence[int]
) -> Subject:
    """A text that a masked language model reads; each position predicts its own token, which is
    known unless it is masked. `whole` are the tokens of the text."""
    not_empty(text)
    frame, tokenizer = preprocessing.frame(model.context_length), preprocessing.tokenizer
    ids = list(frame.put(whole))
    row = torch.tensor([ids], device=model.device)
    return Subject(
        model=name_of(model),
        text=text,
        streams=(_stream(model, "text", tokenizer, ids),),
        run=lambda: model(row)[0],
        name_of=tokenizer.token,
        predicts="same",
        actual=[None if id == preprocessing.mask else id for id in ids],
        separator=_separator(tokenizer),
        num_left_out=max(0, len(whole) - (frame.room or len(whole))),
        focus=ids.index(mask) if (mask := preprocessing.mask) in ids else _last(ids, frame),
        preprocessing=preprocessing,
        **_inside(model, "encoder."),
    )


def of_labels(model: Labeller, preprocessing: TextPreprocessing, text: str) -> Subject:
    """A text that a classifier or a tagger reads: a label for all of it, or for each token."""
    (whole,) = preprocessing.encode([not_empty(text)])
    (row,), _ = preprocessing.rows([whole], model.context_length)
    ids = [int(id) for id in row]
    inputs = torch.tensor([ids], device=model.device)

    def run() -> Tensor:
        logits = model(inputs) / model.temperature  # (1, C), or (1, T, C) for a tagger
        return logits if logits.dim() == 2 else logits[0]

    is_tagger = isinstance(model, TokenTagger)
    frame = preprocessing.frame(model.context_length)
    return Subject(
        model=name_of(model),
        text=text,
        streams=(_stream(model, "text", preprocessing.tokenizer, ids),),
        run=run,
        name_of=model.labels.__getitem__,
        predicts="same" if is_tagger else "whole",
        actual=[None] * (len(ids) if is_tagger else 1),
        num_left_out=max(0, len(whole) - (frame.room or len(whole))),
        focus=_last(ids, frame) if is_tagger else 0,
        has_several_labels=model.config.multi_label,
        caveat=model.caveat,
    )


def of_translation(
    model: Translator,
    preprocessing: PairPreprocessing,
    text: str,
    source_ids: list[int],
    ids: list[int],
) -> Subject:
    """A sentence and its translation, each as tokens; each position of the translation predicts
    the next token."""
    tokenizer = preprocessing.target
    rows = [torch.tensor([each], device=model.device) for each in (source_ids, ids[:-1])]
    stacks = stacks_of(model)
    written = _stream(model, "target", tokenizer, ids[:-1], "decoder", "source")
    taps = () if "decoder" in stacks else model.taps
    return Subject(
        model=name_of(model),
        text=text,
        streams=(
            _stream(model, "source", preprocessing.source, source_ids, "encoder"),
            Stream("target", written.tokens, written.ids, written.stack, "source", taps),
        ),
        run=lambda: model(*rows)[0],
        name_of=tokenizer.token,
        predicts="next",
        actual=ids[1:],
        separator=_separator(tokenizer),
        search=lambda: search_tree(
            model,
            ids[:1],
            tokenizer.token,
            end=preprocessing.end,
            device=model.device,
            memory=lambda: model.encode(rows[0]),
            steps=len(ids) + SPARE_STEPS,
        ),
        read_out=getattr(model, "read_out", None),
        embedding=model.target_embedding.weight,
        positions=getattr(model, "positions", None),
    )


def not_empty(text: str) -> str:
    if not text.strip():
        raise UsageError("the text is empty.")
    return text


def _last(ids: Sequence[int], frame: Frame) -> int:
    """The place of the last token of the text, before the ids that frame it."""
    return max(0, len(ids) - len(frame.after) - 1)


def _separator(tokenizer: Tokenizer) -> str:
    return "" if tokenizer.keeps_spacing else " "


def _stream(
    model: Any,
    name: str,
    tokenizer: Tokenizer,
    ids: list[int],
    stack: str | None = None,
    memory: str | None = None,
) -> Stream:
    """`stack` is the place of the blocks in the model; None: the first there are."""
    stacks = stacks_of(model)
    blocks = next(iter(stacks.values()), None) if stack is None else stacks.get(stack)
    return Stream(name, [tokenizer.token(id) for id in ids], ids, blocks, memory)


def _inside(model: Any, body: str = "") -> dict[str, Any]:
    """The parts of a language model that a reader may look at."""
    modules = dict(model.named_modules())
    embedding = modules.get(f"{body}embedding")
    return {
        "module": model,
        "embedding": getattr(embedding, "weight", None),
        "positions": modules.get(f"{body}positions"),
        "read_out": getattr(model, "read_out", None),
    }
