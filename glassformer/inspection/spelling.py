"""How the tokens of a text are spelled: their bytes, and the merges that made each word."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from glassformer.text.merge_steps import does_merge, merges_of, num_merges
from glassformer.text.tokenizers import Tokenizer, bytes_of, readable_bytes

LONGEST_WORD = 48  # bytes: a longer one has more steps than a reader follows
MOST_WORDS = 400  # different words whose merges are kept


def spelling(tokenizer: Tokenizer, ids: Sequence[int]) -> dict[str, Any] | None:
    """For a byte-level vocabulary, the bytes of each token; if it merges bytes, also the words,
    each with the place of its first token, and the merges of every different word. None for
    others."""
    if not tokenizer.is_byte_level:
        return None
    raw = [tokenizer.token_bytes(id) for id in ids]
    found: dict[str, Any] = {"bytes": [list(each) for each in raw], "words": [], "num_merges": 0}
    if does_merge(tokenizer):
        found["words"] = _words(tokenizer, ids, raw)
        found["num_merges"] = num_merges(tokenizer)
    return found


def _words(tokenizer: Tokenizer, ids: Sequence[int], raw: Sequence[bytes]) -> list[dict[str, Any]]:
    """Words whose merges end with the tokens that are there: those of a word that was cut off where
    the text was cut do not."""
    starts, place = {}, 0  # the token that begins at each byte of the text
    for number, own in enumerate(raw):
        if own:
            starts[place] = number
            place += len(own)
    known: dict[str, list[dict[str, Any]]] = {}
    found, place = [], 0
    for word in tokenizer.parts(b"".join(raw).decode(errors="replace")):
        first, place = starts.get(place), place + len(word)
        if first is None or len(word) > LONGEST_WORD:
            continue
        if word not in known and len(known) < MOST_WORDS:
            known[word] = [asdict(each) for each in merges_of(tokenizer, word)]
        steps = known.get(word)
        if steps is None:
            continue
        pieces = steps[-1]["pieces"] if steps else [tokenizer.token(ids[first])]
        tokens = [tokenizer.token(id) for id in ids[first : first + len(pieces)]]
        if pieces == tokens:
            found.append({"first": first, "bytes": _bytes(word), "steps": steps})
    return found


def _bytes(word: str) -> list[str]:
    """The pieces before the first merge."""
    return [readable_bytes(bytes_of(each)) for each in word]
