"""Words ↔ tokens: which tokens spell which word, so that what is said of one is said of the other.

Ada   Lovelace   lives          words, each with a tag
ada   love ##lace lives         tokens: the first of a word speaks for it
"""

from collections.abc import Iterator, Sequence

from glassformer.text.framing import Frame
from glassformer.text.tokenizers import Tokenizer


def encode_words(tokenizer: Tokenizer, words: Sequence[str]) -> list[list[int]]:
    """The tokens of each word of a sentence; at least one each."""
    # Where blanks are part of tokens, each word has one before it: so it is the same everywhere.
    blank = " " if tokenizer.carries_blanks or tokenizer.kind == "char" else ""
    spelled = tokenizer.without_unknown([blank + word for word in words])
    filler = tokenizer.unknown or 0
    return [ids or [filler] for ids in tokenizer.encode_batch(spelled)]


def windows(lengths: Sequence[int], room: int | None) -> list[tuple[int, int]]:
    """(first word, behind the last) of pieces of a sentence that fit into `room` tokens.

    A word longer than all the room is a piece of its own; only its first tokens are read then.
    """
    pieces, first, size = [], 0, 0
    for place, length in enumerate(lengths):
        if room is not None and size and size + length > room:
            pieces.append((first, place))
            first, size = place, 0
        size += length
    return [*pieces, (first, len(lengths))]


def spelled(
    tokenizer: Tokenizer, words: Sequence[str], frame: Frame
) -> Iterator[tuple[list[int], list[bool]]]:
    """The rows in which a model reads a sentence: their tokens, and which of them speak for a word:
    its first, or for a model that reads from left to right its last."""
    tokens = encode_words(tokenizer, words)
    for first, last in windows([len(ids) for ids in tokens], frame.room):
        inside = [
            (id, place == (len(ids) - 1 if frame.is_causal else 0))
            for ids in (word[: frame.room] for word in tokens[first:last])
            for place, id in enumerate(ids)
        ]
        framed = (
            *((id, False) for id in frame.before),
            *inside,
            *((id, False) for id in frame.after),
        )
        yield [id for id, _ in framed], [begins for _, begins in framed]
