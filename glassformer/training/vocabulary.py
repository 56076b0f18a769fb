"""The rows of embeddings and output layers when the vocabulary of a trained model changes.

    old  the · film · wal · ked                      new  the · film · walked · covfefe
         e₀    e₁     e₂    e₃                            e₀    e₁    (e₂+e₃)/2  mean of all

A token that both vocabularies have keeps its row; any other gets the mean of the rows of the tokens
that it was spelled with before, or of all rows.
"""

import torch
from torch import Tensor

from glassformer.preprocessing import Preprocessing
from glassformer.text.tokenizers import Tokenizer

Rows = list[list[int]]


def moved_rows(
    weights: dict[str, Tensor],
    wanted: dict[str, Tensor],
    before: Preprocessing,
    now: Preprocessing,
) -> dict[str, Tensor]:
    """The weights of a trained model for one that differs in its vocabulary only. `before` and
    `now` have the tokenizers of both; `wanted` the shapes."""
    tokenizers = {
        tokenizer.vocab_size: (tokenizer, now.tokenizers.get(name))
        for name, tokenizer in before.tokenizers.items()
    }
    found = dict(weights)
    for name, weight in weights.items():
        target = wanted.get(name)
        if target is None or target.shape[1:] != weight.shape[1:] or not weight.dim():
            continue
        old, new = _of_size(tokenizers, len(weight))
        if old is None or (target.shape == weight.shape and not _is_table(name)):
            continue
        found[name] = _moved(weight, len(target), old, new)
    return found


def _is_table(name: str) -> bool:
    """Tables of equal size before and after: a model may have more rows than its vocabulary."""
    return name.endswith(("embedding.weight", "head.weight", "head.bias"))


def _of_size(
    tokenizers: dict[int, tuple[Tokenizer, Tokenizer | None]], rows: int
) -> tuple[Tokenizer | None, Tokenizer | None]:
    """The tokenizers of a table with so many rows; it may have more than the vocabulary."""
    fitting = [size for size in tokenizers if size <= rows]
    return tokenizers[max(fitting)] if fitting else (None, None)


def _moved(weight: Tensor, rows: int, old: Tokenizer, new: Tokenizer | None) -> Tensor:
    known = weight[: old.vocab_size]
    if not weight.is_floating_point():
        return weight.new_zeros(rows, *weight.shape[1:])
    mean = known.mean(0, keepdim=True)
    found = mean.repeat(rows, *[1] * (weight.dim() - 1))
    if new is not None:
        for id, sources in enumerate(_sources(old, new)[:rows]):
            if sources:
                found[id] = known[torch.tensor(sources)].mean(0)
    return found


def _sources(old: Tokenizer, new: Tokenizer) -> Rows:
    """The ids before of each token now: its own, or those that spell it."""
    ids = {old.token(id): id for id in reversed(range(old.vocab_size)) if old.piece(id) is not None}
    special = {*old.special_tokens, *new.special_tokens}
    found: Rows = []
    for id in range(new.vocab_size):
        token = new.token(id)
        if token in ids:
            found.append([ids[token]])
        elif token in special or new.piece(id) is None or old.unknown_characters(token):
            found.append([])
        else:
            spelled = old.encode(token.removeprefix("##"))
            found.append([each for each in spelled if each != old.unknown])
    return found
