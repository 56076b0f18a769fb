"""What a head attends to, in a few numbers: how much of its attention follows a simple rule.

    previous token     the one before            first token     the beginning of the text
    itself             the one that looks        next token      the one after, if it may look there
    after the same     what followed the same token when it occurred before (an induction head)

A number is a mean over the tokens for which the rule has an answer. `evenly` is what the same rule
would give to a head that attends to everything it may see alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.inspection.capture import Array

Places = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pattern:
    """A rule, and how closely each head follows it."""

    name: str
    shares: Array
    """(L, H) from 0 to 1."""
    evenly: float


def rules_for(ids: Sequence[int], is_causal: bool) -> dict[str, Places]:
    """(T, T) for each rule: which keys it names for each query. Rules that have no answer for any
    token of the text are left out."""
    length = len(ids)
    query, key = np.arange(length)[:, None], np.arange(length)[None]
    same = np.asarray(ids)[:, None] == np.asarray(ids)[None]  # (T, T)
    after_same = np.zeros((length, length), dtype=bool)
    after_same[:, 1:] = (same & (key < query))[:, :-1]
    rules = {
        "previous token": key == query - 1,
        "itself": (key == query) & (query > 0),
        "first token": (key == 0) & (query > 1),
        "after the same token": after_same & (key < query),
    }
    if not is_causal:
        rules["next token"] = key == query + 1
    return {name: places for name, places in rules.items() if places.any()}


def head_patterns(attention: Array, ids: Sequence[int], is_causal: bool) -> list[Pattern]:
    """How closely each head follows each rule; `attention` is (L, H, T, T)."""
    length = len(ids)
    seen = np.tri(length) if is_causal else np.ones((length, length))
    evenly = seen / seen.sum(-1, keepdims=True)
    found = []
    for name, places in rules_for(ids, is_causal).items():
        has_answer = places.any(-1)  # (T)
        shares = (attention * places).sum(-1)[..., has_answer].mean(-1)  # (L, H)
        even = float((evenly * places).sum(-1)[has_answer].mean())
        found.append(Pattern(name, shares.astype(np.float32), even))
    return found
