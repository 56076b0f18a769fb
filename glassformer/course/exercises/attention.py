"""The notebook on attention: from dot products of word vectors to several heads."""

import math

import torch

from glassformer.course.checking import (
    Solution,
    Wrong,
    exercise,
    expect,
    first_difference,
    is_close,
)
from glassformer.nn.attention import explicit


@exercise
def similarity_weights(function: Solution) -> None:
    """Weights of all words for each word, from the dot products of their vectors"""
    for length, width in ((5, 3), (2, 7)):
        words = torch.randn(length, width)
        weights = function.tensor(words, shape=(length, length))
        if (weights < 0).any():
            raise Wrong("some weights are negative", "which function makes all numbers positive?")
        sums = weights.sum(1)
        if not is_close(sums, torch.ones(length)):
            if is_close(weights.sum(0), torch.ones(length)):
                raise Wrong(
                    "its columns sum to 1, not its rows",
                    "row i holds the weights of all words for word i: along which dimension is the "
                    "sum, and does it keep a column per row (keepdim)?",
                )
            raise Wrong(f"row 0 sums to {sums[0]:.3f}, not to 1", "divide each row by its sum.")
        expect(weights, (words @ words.T).softmax(-1), "are the scores plain dot products?")
    large = function.tensor(200 * torch.randn(3, 8), shape=(3, 3))
    if large.isnan().any():
        raise Wrong(
            "large dot products give NaN",
            "e^1000 is too large a number: subtract the largest score of a row, or use softmax.",
        )


@exercise
def scaled_dot_product(function: Solution) -> None:
    """The attention of one head: softmax(query · keyᵀ / √d) · value"""
    for queries, keys, d, width in ((4, 4, 16, 16), (2, 5, 9, 3)):
        query, key = 3 * torch.randn(queries, d), torch.randn(keys, d)
        value = torch.randn(keys, width)
        found = function.tensor(query, key, value, shape=(queries, width))
        scores = query @ key.T
        wanted = (scores / math.sqrt(d)).softmax(-1) @ value
        if is_close(found, wanted):
            continue
        if is_close(found, scores.softmax(-1) @ value):
            raise Wrong("the scores are not divided by √d", "d is the width of a query.")
        if is_close(found, (scores / d).softmax(-1) @ value):
            raise Wrong("the scores are divided by d, not by its root")
        if is_close(found, scores / math.sqrt(d) @ value):
            raise Wrong(
                "the scores themselves are used as weights",
                "the weights of a query are positive and sum to 1.",
            )
        if is_close(found, (scores / math.sqrt(d)).softmax(0) @ value):
            raise Wrong(
                "the weights of a key sum to 1, not those of a query", "along which dimension?"
            )
        if is_close(found, (scores / math.sqrt(queries)).softmax(-1) @ value):
            raise Wrong("the scores are divided by the root of the number of queries")
        expect(found, wanted, "compare with the equation, factor by factor.")
    batch = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    wanted = explicit(*batch)
    hint = (
        "with a batch and heads in front, transpose only the last two dimensions, and count that "
        "of the softmax from the end, too."
    )
    try:
        found = function.tensor(*batch, shape=wanted.shape)
    except Wrong as wrong:
        raise Wrong(wrong.problem, hint) from wrong
    expect(found, wanted, hint)


@exercise
def causal_mask(function: Solution) -> None:
    """A mask that hides later positions: True where a position may attend"""
    for length in (6, 2, 1):
        mask = function.tensor(length, shape=(length, length))
        if mask.dtype != torch.bool:
            raise Wrong(f"its type is {str(mask.dtype).removeprefix('torch.')}, not bool")
        wanted = torch.ones(length, length).tril().bool()
        if torch.equal(mask, wanted):
            continue
        row, column = first_difference(mask, wanted)
        if torch.equal(mask, ~wanted):
            raise Wrong("it is True where a position may not attend", "True means: may attend.")
        if column > row:
            raise Wrong(
                f"row {row} attends to position {column}, which is later",
                "a query (row) may attend to keys (columns) up to its own position.",
            )
        if column == row:
            raise Wrong(f"row {row} does not attend to itself", "the diagonal is allowed.")
        raise Wrong(f"row {row} does not attend to position {column}, which is earlier")


@exercise
def masked_weights(function: Solution) -> None:
    """The weights of a causal head: scores of later positions count for nothing"""
    for length in (4, 7):
        scores = 2 * torch.randn(length, length)
        mask = torch.ones(length, length).tril().bool()
        weights = function.tensor(scores, mask, shape=(length, length))
        inverted = scores.masked_fill(mask, -math.inf).softmax(-1)
        if torch.equal(weights.isnan(), inverted.isnan()) and inverted.isnan().any():
            raise Wrong("the allowed scores are masked", "True in the mask means: may attend.")
        if weights.isnan().any():
            hint = "replace the masked scores by −∞: 0 · ∞ is NaN, and so is ∞ / ∞."
            raise Wrong("some weights are NaN", hint)
        if weights.isinf().any() or (weights < 0).any():
            raise Wrong("these are scores, not weights", "weights are positive and sum to 1.")
        if (weights[~mask] != 0).any():
            row, column = (int(each) for each in ((weights != 0) & ~mask).nonzero()[0])
            hint = "e^0 is 1: what must a score be for e^score to be 0?"
            if not is_close(weights.sum(-1), torch.ones(length)):
                hint = "True in the mask means: may attend."
            raise Wrong(f"row {row} gives weight to position {column}, which is later", hint)
        if is_close(weights.sum(0), torch.ones(length)):
            raise Wrong("its columns sum to 1, not its rows", "the weights of a query sum to 1.")
        if not is_close(weights.sum(-1), torch.ones(length)):
            raise Wrong(
                f"row 0 sums to {weights[0].sum():.3f}, not to 1",
                "mask before the softmax, so that what is left is normalised.",
            )
        expect(weights, scores.masked_fill(~mask, -math.inf).softmax(-1), "where do they differ?")


@exercise
def split_heads(function: Solution) -> None:
    """A projection (T, H · d) as one matrix per head, (H, T, d)"""
    for length, heads, d in ((5, 2, 3), (4, 4, 4)):
        x = torch.randn(length, heads * d)
        found = function.tensor(x, heads, shape=(heads, length, d))
        wanted = x.view(length, heads, d).transpose(0, 1)
        if torch.equal(found, wanted):
            continue
        if torch.equal(found, x.reshape(heads, length, d)):
            raise Wrong(
                "numbers of different positions are mixed in a head",
                "cut the row of each position first, then exchange heads and positions.",
            )
        if torch.equal(found, x.view(length, d, heads).permute(2, 0, 1)):
            raise Wrong(
                "a head has every H-th number of a row", "it has d numbers that are side by side."
            )
        expect(found, wanted, "head h has the numbers h · d to (h + 1) · d of each row.")


@exercise
def entropy(function: Solution) -> None:
    """How widely each query looks: −Σ w · ln w of its weights, in nats"""
    for weights in (torch.full((3, 4), 0.25), (3 * torch.randn(5, 6)).softmax(-1)):
        found = function.tensor(weights, shape=weights.shape[:1])
        wanted = -(weights * weights.log()).sum(-1)
        if is_close(found, -wanted):
            raise Wrong("it is negative", "ln w is negative: mind the sign.")
        if is_close(found, wanted / math.log(2)):
            raise Wrong("it is in bits, not in nats", "ln is the natural logarithm, torch.log.")
        expect(found, wanted, "for four equal weights it is ln 4 = 1.3863.")
    found = function.tensor(torch.eye(3), shape=(3,))
    if found.isnan().any():
        raise Wrong("weights of 0 give NaN", "ln 0 is −∞, but w · ln w is 0 there.")
    expect(found, torch.zeros(3), "a query that looks at one key only has the entropy 0.")
