"""How BPE reads a word: it begins with bytes and joins two neighbours at a time.

    l·o·w·e·r  →  lo·w·e·r  →  low·e·r  →  low·er  →  lower

Each step applies the merge that was learned first among those possible, at its first place.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from glassformer.errors import UsageError
from glassformer.text.tokenizers import Tokenizer, bytes_of, readable_bytes

Ranks = Mapping[tuple[str, str], int]


def merge_steps(tokenizer: Tokenizer, text: str) -> list[list[str]]:
    """The pieces before the first merge and after each; the last are the tokens of the text. The
    words of a longer text are merged one after the other."""
    if tokenizer.kind != "bpe" or not tokenizer.is_byte_level:
        raise UsageError(f"a {tokenizer.kind} tokenizer does not merge bytes: only bpe does.")
    ranks, whole_first = _ranks(tokenizer)
    words = [list(word) for word in tokenizer.words(text)]
    steps = [_shown(words)]
    for pieces in words:
        word = "".join(pieces)
        if whole_first is not None and word in whole_first and len(pieces) > 1:
            pieces[:] = [word]
            steps.append(_shown(words))
        while (place := _next_merge(pieces, ranks)) is not None:
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
            steps.append(_shown(words))
    return steps


@lru_cache(maxsize=4)
def _ranks(tokenizer: Tokenizer) -> tuple[Ranks, frozenset[str] | None]:
    """When each merge was learned, and the words that need none, if the tokenizer has such."""
    model = tokenizer.as_json()["model"]
    pairs = (pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"])
    ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
    return ranks, frozenset(model["vocab"]) if model["ignore_merges"] else None


def _next_merge(pieces: Sequence[str], ranks: Ranks) -> int | None:
    """Where the next merge takes place; None: there is none."""
    found = [
        (rank, place)
        for place, pair in enumerate(pairwise(pieces))
        if (rank := ranks.get(pair)) is not None
    ]
    return min(found)[1] if found else None


def _shown(words: Sequence[Sequence[str]]) -> list[str]:
    return [readable_bytes(bytes_of(piece)) for pieces in words for piece in pieces]
