"""How BPE reads a word: it begins with bytes and joins two neighbours at a time.

    l·o·w·e·r  →  lo·w·e·r  →  low·e·r  →  low·er  →  lower

Each step applies the merge that was learned first among those possible, at its first place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from glassformer.errors import UsageError
from glassformer.text.tokenizers import Tokenizer, bytes_of, readable_bytes

Ranks = Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Merge:
    """One step: the pieces after it, which of them is new, and when its merge was learned."""

    pieces: list[str]
    place: int
    rank: int | None
    """0 for the first merge that was learned; None: the vocabulary has the whole word, which needs
    no merge."""


def merge_steps(tokenizer: Tokenizer, text: str) -> list[list[str]]:
    """The pieces before the first merge and after each; the last are the tokens of the text. The
    words of a longer text are merged one after the other."""
    check_merges(tokenizer)
    words = [[_shown(each) for each in word] for word in tokenizer.parts(text)]
    steps = [_joined(words)]
    for number, word in enumerate(tokenizer.parts(text)):
        for merge in merges_of(tokenizer, word):
            words[number] = merge.pieces
            steps.append(_joined(words))
    return steps


def check_merges(tokenizer: Tokenizer) -> None:
    """An error if the tokenizer does not merge bytes."""
    if not does_merge(tokenizer):
        raise UsageError(f"a {tokenizer.kind} tokenizer does not merge bytes: only bpe does.")


def does_merge(tokenizer: Tokenizer) -> bool:
    return tokenizer.kind == "bpe" and tokenizer.is_byte_level


def num_merges(tokenizer: Tokenizer) -> int:
    return len(_ranks(tokenizer)[0])


def merges_of(tokenizer: Tokenizer, word: str) -> Iterator[Merge]:
    """The merges of one word, written as `Tokenizer.parts` does."""
    ranks, whole_first = _ranks(tokenizer)
    pieces = list(word)
    if whole_first is not None and word in whole_first and len(pieces) > 1:
        pieces = [word]
        yield Merge([_shown(word)], 0, None)
    while (found := _next_merge(pieces, ranks)) is not None:
        rank, place = found
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        yield Merge([_shown(piece) for piece in pieces], place, rank)


@lru_cache(maxsize=4)
def _ranks(tokenizer: Tokenizer) -> tuple[Ranks, frozenset[str] | None]:
    """When each merge was learned, and the words that need none, if the tokenizer has such."""
    model = tokenizer.as_json()["model"]
    pairs = (pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"])
    ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
    return ranks, frozenset(model["vocab"]) if model["ignore_merges"] else None


def _next_merge(pieces: Sequence[str], ranks: Ranks) -> tuple[int, int] | None:
    """The rank and the place of the next merge; None: there is none."""
    found = [
        (rank, place)
        for place, pair in enumerate(pairwise(pieces))
        if (rank := ranks.get(pair)) is not None
    ]
    return min(found, default=None)


def _shown(piece: str) -> str:
    return readable_bytes(bytes_of(piece))


def _joined(words: Sequence[Sequence[str]]) -> list[str]:
    return [piece for pieces in words for piece in pieces]
