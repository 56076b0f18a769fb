"""The notebook on encoders: norm, feed-forward layer, residual connections, positions."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.course.checking import (
    Solution,
    Wrong,
    check_same_but,
    exercise,
    final_scores,
    finished_run,
    first_difference,
    is_close,
)
from glassformer.nn.positions import sinusoids


@exercise
def layer_norm(function: Solution) -> None:
    """Layer norm: each vector with mean 0 and variance 1, then gain and bias"""
    for shape in ((3, 5, 8), (4, 6)):
        x = 2 * torch.randn(shape) + 1
        gain, bias = torch.rand(shape[-1]) + 0.5, torch.randn(shape[-1])
        found = function.tensor(x, gain, bias, shape=shape)
        if is_close(found, F.layer_norm(x, shape[-1:], gain, bias), 1e-4):
            continue
        plain = F.layer_norm(x, shape[-1:])
        centred = x - x.mean(-1, keepdim=True)
        if is_close(found, centred / x.std(-1, keepdim=True) * gain + bias, 1e-3):
            raise Wrong(
                "the variance is divided by D − 1, not by D",
                "torch.std and torch.var do so unless they are told not to.",
            )
        if is_close(found, plain, 1e-4):
            raise Wrong("gain and bias have no effect")
        if is_close(found, plain * gain, 1e-4) or is_close(found, plain + bias, 1e-4):
            raise Wrong("only one of gain and bias has an effect")
        if is_close(found, (plain + bias) * gain, 1e-4):
            raise Wrong("the bias is scaled by the gain", "which of them comes last?")
        if is_close(found, centred / x.var(-1, unbiased=False, keepdim=True) * gain + bias, 1e-3):
            raise Wrong("it divides by the variance, not by its root")
        if is_close(found, centred * gain + bias, 1e-4):
            raise Wrong("the variance is not brought to 1")
        for dims, what in (((0,), "the texts of the batch"), (tuple(range(len(shape))), "all")):
            mean, var = x.mean(dims, keepdim=True), x.var(dims, unbiased=False, keepdim=True)
            if is_close(found, (x - mean) / (var + 1e-5).sqrt() * gain + bias, 1e-3):
                raise Wrong(
                    f"mean and variance are those of {what}, not of one vector",
                    "they are taken along the last dimension only.",
                )
        where = ", ".join(
            map(str, first_difference(found, F.layer_norm(x, shape[-1:], gain, bias)))
        )
        raise Wrong(f"the number at [{where}] is wrong", "compare with the formula, step by step.")
    ones, small = torch.ones(6), 1e-3 * torch.randn(2, 6)
    found = function.tensor(torch.ones(2, 6), ones, ones, shape=(2, 6))
    if found.isnan().any():
        raise Wrong("a vector of equal numbers gives NaN", "0 / 0: where does ε go?")
    found = function.tensor(small, ones, 0 * ones, shape=(2, 6))
    if not is_close(found, F.layer_norm(small, (6,)), 1e-3):
        raise Wrong("for small numbers it is wrong", "ε is added to the variance, under the root.")
    found = function.tensor(small, ones, 0 * ones, eps=0.1, shape=(2, 6))
    if not is_close(found, F.layer_norm(small, (6,), eps=0.1), 1e-3):
        raise Wrong("another eps has no effect", "it is an argument of the function.")


@exercise
def feed_forward(function: Solution) -> None:
    """The feed-forward layer: up, GELU, down"""
    up, down = nn.Linear(6, 24), nn.Linear(24, 6)
    for weight in (*up.parameters(), *down.parameters()):
        nn.init.normal_(weight)
    for shape in ((2, 5, 6), (3, 6)):
        x = torch.randn(shape)
        found = function.tensor(x, up, down, shape=shape)
        with torch.no_grad():
            wide = up(x)
            if is_close(found, down(F.gelu(wide)), 1e-4):
                continue
            if is_close(found, down(wide), 1e-4):
                raise Wrong("it is linear", "what stands between the two layers?")
            if is_close(found, F.gelu(down(wide)), 1e-4):
                raise Wrong("GELU comes last", "it belongs between the two layers.")
            if is_close(found, F.gelu(down(F.gelu(wide))), 1e-4):
                raise Wrong("there is a GELU after the second layer, too")
            if is_close(found, x + down(F.gelu(wide)), 1e-4):
                raise Wrong(
                    "it adds its input", "that comes later, in the residual connection around it."
                )
            for other in (F.relu, torch.sigmoid, torch.tanh, F.silu):
                if is_close(found, down(other(wide)), 1e-4):
                    raise Wrong(
                        "its function is not GELU", "which function does the equation name?"
                    )
            if is_close(found, down(F.gelu(wide, approximate="tanh")), 1e-3):
                raise Wrong("it is the approximation of GELU", "take the exact one.")
        raise Wrong("it is not down(GELU(up(x)))", "compare with the formula, from inside out.")


@exercise
def residual_step(function: Solution) -> None:
    """A layer with a residual connection, and a norm before or after it"""
    matrix = torch.randn(6, 6)

    def layer(x: Tensor) -> Tensor:
        return (x @ matrix).tanh()

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, (6,))

    x = 3 * torch.randn(2, 4, 6) + 1
    before, after = x + layer(norm(x)), norm(x + layer(x))
    cases = {
        "there is no residual connection": (layer(norm(x)), norm(layer(x))),
        "pre-norm and post-norm are exchanged": (after, before),
        "the norm is missing": (x + layer(x), x + layer(x)),
    }
    results = {
        pre_norm: function.tensor(x, layer, norm, pre_norm, shape=x.shape)
        for pre_norm in (True, False)
    }
    if is_close(results[True], results[False]):
        raise Wrong("`pre_norm` has no effect", "there are two cases.")
    for pre_norm, found in results.items():
        wanted, name = (before, "pre-norm") if pre_norm else (after, "post-norm")
        if is_close(found, wanted, 1e-4):
            continue
        for problem, (before_layer, after_layer) in cases.items():
            if is_close(found, before_layer if pre_norm else after_layer, 1e-4):
                raise Wrong(f"{name}: {problem}", "compare with the formula.")
        if is_close(found, norm(x) + layer(norm(x)), 1e-4):
            raise Wrong(
                f"{name}: the normed vector is added, not x itself",
                "the way around the layer must be free.",
            )
        if is_close(found, x + norm(layer(x)), 1e-4):
            raise Wrong(
                f"{name}: the norm is around the layer only",
                "norm the sum." if not pre_norm else "norm what the layer reads.",
            )
        if is_close(found, norm(x + layer(norm(x))), 1e-4):
            raise Wrong(f"{name}: there are two norms", "each kind has one.")
        raise Wrong(f"{name}: the result is wrong", "compare with the formula.")


@exercise
def sinusoidal_positions(function: Solution) -> None:
    """Positions as waves: sines, and cosines of the same frequency"""
    for length, width in ((7, 8), (40, 6)):
        found = function.tensor(length, width, shape=(length, width))
        wanted = sinusoids(torch.arange(length), width)
        if is_close(found, wanted, 1e-4):
            continue
        i, j = torch.arange(length)[:, None], torch.arange(width)
        odd, pairs = j % 2 == 1, wanted.unflatten(1, (-1, 2))
        printed = i / 10000 ** (j - 1 / width)
        if is_close(found, torch.where(odd, printed.cos(), wanted), 1e-4):
            raise Wrong(
                "the exponent of the cosines is j − 1/r", "it is (j − 1)/r: mind the parentheses."
            )
        own = i / 10000 ** (j / width)
        if is_close(found, torch.where(odd, own.cos(), own.sin()), 1e-4):
            raise Wrong(
                "each cosine has a lower frequency than the sine before it",
                "the two of a pair share their frequency: the exponent (j − 1)/r is that of the "
                "neighbour.",
            )
        if is_close(found, torch.cat((pairs[..., 0], pairs[..., 1]), 1), 1e-4):
            raise Wrong(
                "all sines come first, then all cosines", "they take turns, j even and j odd."
            )
        if is_close(found, pairs.flip(-1).flatten(1), 1e-4):
            raise Wrong("sines and cosines are exchanged", "j = 0 is even.")
        if is_close(found, sinusoids(torch.arange(1, length + 1), width), 1e-4):
            raise Wrong("the first place is 1, not 0", "row 0 is 0, 1, 0, 1, …")
        if is_close(found, sinusoids(-torch.arange(length), width), 1e-4):
            raise Wrong("the sines have the wrong sign")
        row, column = first_difference(found, wanted, 1e-4)
        raise Wrong(
            f"at place {row}, number {column} is {found[row, column]:.4f}, not "
            f"{wanted[row, column]:.4f}",
            "10000 is raised to the power j/r, where r is the width, not the length.",
        )


@exercise
def without_positions(with_positions: Any, without_positions: Any) -> None:
    """Experiment: an encoder without positions cannot tell who chased whom"""
    ordered = finished_run(with_positions, "classifier")
    blind = finished_run(without_positions, "classifier")
    kinds = [run.recipe().model.get("positions") for run in (ordered, blind)]
    if kinds[0] == "none" and kinds[1] != "none":
        raise Wrong("the run without positions comes first", "pass the one with positions first.")
    if kinds[0] == "none" or kinds[1] != "none":
        raise Wrong(
            f"positions are {kinds[0]} in the first run and {kinds[1]} in the second",
            "they are none in the second run only.",
        )
    if any(run.recipe().model.get("bag") for run in (ordered, blind)):
        raise Wrong(
            "a bag of words beside the encoder also reads pairs of adjacent words",
            'train with preset="lecture", or with bag off.',
        )
    check_same_but(ordered, blind, ("model.positions",))
    scores = [final_scores(run) for run in (ordered, blind)]
    here, there = (score["accuracy"] for score in scores)
    (low, _), (_, high) = (score["accuracy_interval"] for score in scores)
    if here < 0.7:
        raise Wrong(
            f"with positions, the accuracy is only {here:.3f}: this run has not learned the task",
            "train both for more steps.",
        )
    if low <= high:
        raise Wrong(
            f"accuracies of {here:.3f} and {there:.3f} may differ by chance: their intervals "
            "overlap",
            "does the order of words decide in these texts? Are there enough for a test?",
        )
    chance = 1 / len(scores[1]["classes"])
    if there < chance + (0.5 - chance) / 2:
        raise Wrong(
            f"without positions, the accuracy is {there:.3f}, less than the words alone allow",
            "it can find out which two animals there are. Train both for more steps.",
        )
