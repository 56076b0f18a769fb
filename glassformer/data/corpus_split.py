"""The split of a corpus into training and validation text.

    Document, Document, Document, …  →  TextStore  →  training | validation

All text is copied to one file on disk, so that the hub and compressed files are read only once:
from there it is compared, held out, sampled for the tokenizer and encoded.

The held-out part consists of whole documents if there are many, else of the end of the text. Random
windows would leak: their neighbours, almost the same text, would be in the training set. Documents
of equal content (`split.py`) stay together.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from glassformer.data import text_files
from glassformer.data.documents import CorpusConfig, stream_documents
from glassformer.data.rows import Mask, TextPart, TextStore
from glassformer.data.split import SLACK, USUAL, Groups, Keys, choose, leaks, long_content_key, verb
from glassformer.errors import GlassformerError
from glassformer.wording import counted, readable_size

MANY = 10  # different documents; with at least this many, whole ones are held out
_BLANK = "one end is only whitespace"
_TINY = 100  # bytes of text that are too few, wherever its whitespace is
_NEAR = 2**20  # bytes in which the end of a line or of a word is looked for


@dataclass(frozen=True, slots=True)
class Split:
    """Two disjoint parts of a corpus, and what was held out, in words."""

    training: TextPart
    validation: TextPart
    held_out: str
    notes: list[str] = field(default_factory=list)


def read_corpus(config: CorpusConfig, seed: int, folder: Path) -> Split:
    """Copy all text of a corpus to a file in `folder`, and split it as its config says."""
    store, source = TextStore(folder), ""
    options = config.text_column, config.encoding, config.chat_template
    with text_files.collecting() as happened:
        for document in stream_documents(config.paths, *options):
            source = source or document.source
            store.add(document.parts)
        num_training = len(store)
        for document in stream_documents(config.validation_paths, *options):
            store.add(document.parts)
    if not config.validation_paths:
        parts = split(store, config.validation_fraction or USUAL, seed, source)
        parts.notes[:0] = happened.notes()
        return parts
    keys = _keys_of(store, seed)
    training, validation = keys[:num_training], keys[num_training:]
    notes = [
        *happened.notes(),
        *leaks(validation, "document", "validation", [training], "training"),
    ]
    is_held_out = np.arange(len(store)) >= num_training
    held_out = f"all of {', '.join(config.validation_paths)}"
    return _whole_documents(store, is_held_out, held_out, notes)


def split(store: TextStore, fraction: float, seed: int, source: str) -> Split:
    """Hold out about `fraction`: whole documents if there are many, else the end of the text.

    `source` names the first document, for messages.
    """
    count = len(store)
    what = source if count == 1 else counted(count, "document")
    if store.offsets[-1] < 2:
        raise _cannot_hold_out(what, "too short")
    groups = Groups.of(_keys_of(store, seed) if count > 1 else np.zeros(1, np.uint64))
    if count > len(groups) == 1:
        raise _cannot_hold_out(what, "all have the same content")
    single: list[int] = []  # documents without a copy, if there are few
    if len(groups) < MANY:
        single = np.sort(groups.order[groups.starts[groups.sizes == 1]]).tolist()
    if single:
        parts = _hold_out_end(store, fraction, single, what)
    else:
        parts = _hold_out_documents(store, fraction, groups)
    if copies := count - len(groups):
        parts.notes.append(
            f"{counted(copies, 'document')} {verb(copies, 'repeat')} another, ignoring case and "
            "whitespace; equal documents stay on the same side of the split"
        )
    return parts


def _keys_of(store: TextStore, seed: int) -> Keys:
    """A number for each document: random, but the same for equal content."""
    keys = (long_content_key(text.parts, seed) for text in store.all().texts())
    return np.fromiter(keys, np.uint64, len(store))


def _hold_out_documents(store: TextStore, fraction: float, groups: Groups) -> Split:
    """Hold out random groups of equal documents, about `fraction` of the text."""
    sizes, total = np.diff(store.offsets), int(store.offsets[-1])
    group_sizes = np.add.reduceat(sizes[groups.order], groups.starts)
    everything, enough = np.arange(len(groups), dtype=np.int32), fraction * total
    is_held_out = groups.mask(choose(everything, group_sizes, enough, SLACK * enough))
    share = f"{100 * int(sizes[is_held_out].sum()) / total:.2g}% of the text"
    count = np.count_nonzero(is_held_out)
    held_out = f"{count:,} of {counted(len(store), 'document')}, {share}"
    return _whole_documents(store, is_held_out, held_out, [])


def _whole_documents(store: TextStore, is_held_out: Mask, held_out: str, notes: list[str]) -> Split:
    return Split(TextPart(store, ~is_held_out), TextPart(store, is_held_out), held_out, notes)


def _hold_out_end(store: TextStore, fraction: float, single: list[int], what: str) -> Split:
    """Hold out the end of the text, leaving aside documents that have a copy: if one of them were
    cut, its end would be on both sides."""
    bounds = store.offsets.tolist()
    total = bounds[-1]
    held_out = fraction * total
    if len(single) < len(store):
        held_out = min(held_out, sum(bounds[n + 1] - bounds[n] for n in single) / 2)
    tail, index = 0, len(single)  # bytes in the documents single[index:]
    while tail < held_out:
        index -= 1
        tail += bounds[single[index] + 1] - bounds[single[index]]
    cut_document = single[index]
    start, end = bounds[cut_document], bounds[cut_document + 1]
    cut = _boundary(store, start, end, at=start + int(tail - held_out), reach=held_out / 2)
    is_held_out = np.zeros(len(store), np.bool_)
    is_held_out[single[index + 1 :]] = True
    is_training = ~is_held_out
    is_held_out[cut_document], is_training[cut_document] = cut < end, cut > start
    training = TextPart(store, is_training, {cut_document: (start, cut)} if cut > start else {})
    validation = TextPart(store, is_held_out, {cut_document: (cut, end)} if cut < end else {})
    if training.is_blank or validation.is_blank:
        why = f"only {readable_size(total)} of text" if total < _TINY else _BLANK
        raise _cannot_hold_out(what, why)
    share = 100 * validation.num_bytes / total
    return Split(training, validation, f"last {share:.2g}% of {what}")


def _boundary(store: TextStore, start: int, end: int, at: int, reach: float) -> int:
    """The start of the line nearest to `at`, else of the nearest word in reach, else of the
    character at `at`."""
    low, high = max(start, at - _NEAR), min(end, at + _NEAR)
    text = store.read_bytes(low, high)
    for separator in (b"\n", b" "):
        before = text.rfind(separator, 0, at - low)
        behind = text.find(separator, at - low)
        candidates = [low + position + 1 for position in (before, behind) if position >= 0]
        candidates += [start] * (before < 0 and low == start) + [end] * (behind < 0 and high == end)
        nearest = min(candidates, key=lambda position: abs(position - at), default=at - _NEAR)
        if abs(nearest - at) <= min(reach, _NEAR - 1):
            return nearest
    while at > low and text[at - low] & 0xC0 == 0x80:  # within a character
        at -= 1
    return at


def _cannot_hold_out(what: str, why: str) -> GlassformerError:
    return GlassformerError(
        f"{what}: {why}, so no part can be held out for validation. "
        "Provide more text, or separate validation text (--validation-data)."
    )
