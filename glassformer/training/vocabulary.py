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
    moved = dict(weights)
    for name, weight in weights.items():
        target = wanted.get(name)
        if target is None or target.shape[1:] != weight.shape[1:] or not weight.dim():
            continue
        # A table may have more rows than the vocabulary, and as many before as after.
        is_table = name.endswith(("embedding.weight", "head.weight", "head.bias"))
        fitting = [size for size in tokenizers if size <= len(weight)]
        if fitting and (is_table or target.shape != weight.shape):
            moved[name] = _move(weight, len(target), *tokenizers[max(fitting)])
    return moved


def _move(weight: Tensor, rows: int, old: Tokenizer, new: Tokenizer | None) -> Tensor:
    before = weight[: old.vocab_size]
    if not weight.is_floating_point():
        return weight.new_zeros(rows, *weight.shape[1:])
    mean = before.mean(0, keepdim=True)
    table = mean.repeat(rows, *[1] * (weight.dim() - 1))
    if new is not None:
        for id, sources in enumerate(_sources(old, new)[:rows]):
            if sources:
                table[id] = before[torch.tensor(sources)].mean(0)
    return table


def _sources(old: Tokenizer, new: Tokenizer) -> list[list[int]]:
    """The ids before of each token now: its own, or those that spell it."""
    ids = {old.token(id): id for id in reversed(range(old.vocab_size)) if old.piece(id) is not None}
    special = {*old.special_tokens, *new.special_tokens}
    rows: list[list[int]] = []
    for id in range(new.vocab_size):
        token = new.token(id)
        if token in ids:
            rows.append([ids[token]])
        elif token in special or new.piece(id) is None or old.unknown_characters(token):
            rows.append([])
        else:
            spelling = old.encode(token.removeprefix("##"))
            rows.append([source for source in spelling if source != old.unknown])
    return rows
