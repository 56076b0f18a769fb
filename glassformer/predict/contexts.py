"""The word that several sentences share, and its vectors in each of them."""

from collections.abc import Sequence

import numpy as np

from glassformer.errors import UsageError
from glassformer.inspection.contexts import Contexts, Use, vectors_of
from glassformer.inspection.inspection import Inspection
from glassformer.inspection.subject import Stream
from glassformer.predict.word_alignment import word_starts
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import shortened

Words = dict[str, list[tuple[int, ...]]]
"""The words of a sentence, in lower case, each with the positions of its tokens wherever it
stands."""


def contexts_of(seen: Sequence[Inspection], tokenizer: Tokenizer, word: str | None) -> Contexts:
    """A word in several sentences (default: the longest that all of them share), as the first
    stack of the model reads it."""
    words = [words_of(tokenizer, each.subject.streams[0].ids) for each in seen]
    texts = [each.subject.text for each in seen]
    notes = tuple(dict.fromkeys(note for each in seen for note in each.notes))
    if word is None:
        word, more = _shared(words, texts)
        notes += more
    else:
        _check(word, words, texts)
    uses = [
        Use(number, positions)
        for number, found in enumerate(words)
        for positions in found[word.casefold()]
    ]
    if len(uses) < 2:
        raise UsageError(
            f'"{word}" stands in one place only. Pass another sentence with --compare.'
        )
    streams = [each.subject.streams[0] for each in seen]
    parts = [
        vectors_of(each.capture(stream).hidden, [use for use in uses if use.sentence == number])
        for number, (each, stream) in enumerate(zip(seen, streams, strict=True))
    ]
    return Contexts(
        model=seen[0].subject.model,
        word=word,
        sentences=texts,
        tokens=[_without_special(tokenizer, stream) for stream in streams],
        uses=uses,
        separator="" if tokenizer.keeps_spacing else " ",
        hidden=np.concatenate(parts, axis=1),  # (N + 1, U, D)
        notes=notes,
    )


def _without_special(tokenizer: Tokenizer, stream: Stream) -> list[str]:
    """Its tokens, with nothing in place of those that are no text."""
    special = set(tokenizer.special_tokens.values())
    pairs = zip(stream.tokens, stream.ids, strict=True)
    return ["" if id in special else token for token, id in pairs]


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
    """Without special tokens, unknown words and punctuation."""
    special = {*tokenizer.special_tokens.values(), tokenizer.unknown}
    groups: list[list[int]] = []
    for place, begins in enumerate(word_starts(tokenizer, ids)):
        if begins or not groups:
            groups.append([])
        groups[-1].append(place)
    found: Words = {}
    for group in groups:
        tokens = {place: tokenizer.token(ids[place]).removeprefix("##") for place in group}
        places = [at for at, each in tokens.items() if ids[at] not in special and each.strip()]
        name = "".join(tokens[place] for place in places).strip().casefold()
        if any(map(str.isalnum, name)):
            found.setdefault(name, []).append(tuple(places))
    return found


def _shared(words: Sequence[Words], texts: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The longest of the words that all sentences have, and a note if there are others."""
    shared = [name for name in words[0] if all(name in each for each in words[1:])]
    if len(words) == 1:
        raise UsageError("a word is compared in several sentences. Pass another with --compare.")
    if not shared:
        raise UsageError(
            f"no word stands in each of the {len(words)} sentences: the first one has "
            f"{', '.join(words[0]) or 'no words'}. Use sentences that share a word."
        )
    word = max(shared, key=len)
    if len(shared) == 1:
        return word, ()
    others = ", ".join(f'"{each}"' for each in shared if each != word)
    return word, (f'"{word}" is compared; the sentences also share {others} (choose with --word)',)


def _check(word: str, words: Sequence[Words], texts: Sequence[str]) -> None:
    for text, found in zip(texts, words, strict=True):
        if word.casefold() not in found:
            raise UsageError(
                f'"{word}" is not a word of "{shortened(text, 60)}" as the model reads it: '
                f"{', '.join(found) or 'no words'}."
            )
