"""The notebook on GPT: next tokens, perplexity, sampling, and a look at what heads do."""

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.course.checking import (
    Solution,
    Wrong,
    exercise,
    finished_run,
    first_difference,
    is_close,
)
from glassformer.models.gpt import GPT, GPTConfig
from glassformer.nn.observe import listening

SHIFT = "shift along the tokens, not from window to window."


@exercise
def next_token_pairs(function: Solution) -> None:
    """Inputs and targets of a language model: the same windows, shifted by one"""
    for rows, length in ((3, 6), (1, 2)):
        windows = torch.randperm(100)[: rows * length].view(rows, length)
        pair = function(windows)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Wrong("it does not return two tensors", "return inputs, targets.")
        inputs, targets = pair
        for name, found in (("inputs", inputs), ("targets", targets)):
            if not isinstance(found, Tensor):
                raise Wrong(f"its {name} are a {type(found).__name__}, not a tensor")
            if rows > 1 and found.shape == (rows - 1, length):
                raise Wrong("whole windows are shifted", SHIFT)
            if found.shape != (rows, length - 1):
                raise Wrong(
                    f"the shape of its {name} is {tuple(found.shape)}, not {(rows, length - 1)}",
                    "a window of T + 1 tokens has T tokens with a successor.",
                )
        if torch.equal(inputs, targets):
            raise Wrong(
                "inputs and targets are the same",
                "a model trained on them repeats the token that it has just read.",
            )
        if torch.equal(inputs, windows[:, 1:]) and torch.equal(targets, windows[:, :-1]):
            raise Wrong(
                "each target is the token before its input",
                "which of the two comes first in the text?",
            )
        if not torch.equal(inputs, windows[:, :-1]):
            raise Wrong("its inputs are not the first T tokens of each window")
        if not torch.equal(targets, windows[:, 1:]):
            row, column = first_difference(targets, windows[:, 1:])
            raise Wrong(
                f"the target at [{row}, {column}] is not the token that follows its input there",
                SHIFT,
            )


@exercise
def text_log_probability(function: Solution) -> None:
    """The logarithm of the probability of a text, from the logits of a model"""
    for length, vocabulary in ((7, 5), (2, 9)):
        logits, ids = 2 * torch.randn(length, vocabulary), torch.randint(vocabulary, (length,))
        found = function.number(logits, ids)
        logs = logits.log_softmax(-1)
        each = logs[:-1].gather(1, ids[1:, None])
        if is_close(found, each.sum()):
            continue
        same_row, no_softmax = logs.gather(1, ids[:, None]), logits[:-1].gather(1, ids[1:, None])
        if is_close(found, same_row.sum()) or is_close(found, same_row[1:].sum()):
            raise Wrong(
                "each token is looked up in its own row",
                "row n was computed from token n. Which token does it predict?",
            )
        if is_close(found, no_softmax.sum()):
            raise Wrong(
                "it adds logits, not log-probabilities", "which function normalises the logits?"
            )
        if is_close(found, each.mean()) and length > 2:
            raise Wrong("it is the mean, not the sum", "a product becomes a sum of logarithms.")
        if is_close(found, -each.sum()):
            raise Wrong("it is positive", "the logarithm of a probability is at most 0.")
        if is_close(found, each.sum().exp()):
            raise Wrong("it is the probability, not its logarithm")
        if is_close(found, each.sum() / math.log(2)):
            raise Wrong("its logarithm has the base 2", "ln is the natural logarithm, torch.log.")
        raise Wrong(
            f"it is {found:.4f}, not {each.sum():.4f}",
            "look up the logarithm of the probability of each token in the row before, and add.",
        )
    found = function.number(torch.zeros(1000, 50), torch.zeros(1000, dtype=torch.long))
    if math.isinf(found):
        raise Wrong(
            "a text of 1,000 tokens gives −∞",
            "the product of 1,000 probabilities is rounded to 0: add their logarithms instead.",
        )
    sharp = torch.tensor([[0.0, 500.0], [0.0, 0.0]])
    if math.isinf(found := function.number(sharp, torch.tensor([1, 0]))) or math.isnan(found):
        raise Wrong(
            "a very unlikely token gives −∞", "use log_softmax: softmax rounds e^−500 to 0."
        )


@exercise
def perplexity(function: Solution) -> None:
    """Perplexity, from the log-probabilities of tokens"""
    for logs in (torch.rand(6).log(), torch.full((4,), 0.25).log(), torch.rand(3).log() - 2):
        found = function.number(logs)
        wanted = (-logs.mean()).exp()
        if is_close(found, wanted):
            continue
        if is_close(found, (-logs).exp().mean()):
            raise Wrong(
                "it is the mean of exponentials", "take the mean first, then the exponential."
            )
        if is_close(found, 2 ** (-logs.mean())):
            raise Wrong(
                "it raises 2 to a power, but the logarithms are natural",
                "the base must be the same in both.",
            )
        if is_close(found, (-logs.sum()).exp()):
            raise Wrong(
                "it takes the sum, not the mean",
                "a text must not get worse only because it is longer.",
            )
        if is_close(found, -logs.mean()):
            raise Wrong("it is the loss itself", "perplexity is its exponential.")
        if found < 1:
            raise Wrong(
                f"it is {found:.4f}, but can never be below 1",
                "mind the sign: ln p is at most 0.",
            )
        raise Wrong(
            f"it is {found:.4f}, not {wanted:.4f}",
            "for tokens that all have the probability 1/4, it is 4.",
        )
    long = torch.rand(5000).clamp(min=1e-3).log()
    found = function.number(long)
    if not is_close(found, (-long.mean()).exp(), 1e-3):
        raise Wrong(
            f"for a text of 5,000 tokens it is {found}",
            "the product of so many probabilities is rounded to 0: stay with logarithms.",
        )


@exercise
def with_temperature(function: Solution) -> None:
    """Probabilities of the next token at a temperature"""
    for size, temperature in ((5, 0.5), (9, 2.0), (4, 1.0)):
        logits = 2 * torch.randn(size)
        found = function.tensor(logits, temperature, shape=(size,))
        wanted = (logits / temperature).softmax(0)
        if is_close(found, wanted):
            continue
        if is_close(found, logits / temperature):
            raise Wrong("it returns logits, not probabilities")
        if is_close(found, wanted.log()):
            raise Wrong("it returns logarithms of probabilities", "e^log p is p.")
        if is_close(found, (logits * temperature).softmax(0)):
            raise Wrong(
                "a higher temperature makes likely tokens likelier",
                "it should make all tokens more alike: do you multiply or divide?",
            )
        if is_close(found, logits.softmax(0)):
            raise Wrong("the temperature has no effect")
        if not is_close(found.sum(), 1.0):
            raise Wrong(
                f"the probabilities sum to {found.sum():.3f}, not to 1",
                "the temperature changes the logits, before the softmax.",
            )
        place = first_difference(found, wanted)[0]
        raise Wrong(
            f"the probability of token {place} is {found[place]:.4f}, not {wanted[place]:.4f}",
            "the temperature changes the logits, before the softmax.",
        )
    found = function.tensor(torch.tensor([1.0, 3.0, 2.0]), 0.001, shape=(3,))
    if found.isnan().any():
        raise Wrong(
            "a temperature of 0.001 gives NaN",
            "e^3000 is too large a number: softmax subtracts the largest logit first.",
        )


@exercise
def top_p(function: Solution) -> None:
    """The likeliest tokens that together reach a probability p"""
    for values, p in (
        ([0.15, 0.5, 0.1, 0.25], 0.2),
        ([0.15, 0.5, 0.1, 0.25], 0.6),
        ([0.05, 0.2, 0.6, 0.15], 0.5),
        ([0.1, 0.2, 0.3, 0.4], 1.0),
    ):
        before = torch.tensor(values)
        found = function.tensor(before, p, shape=before.shape)
        ordered, order = before.sort(descending=True)
        stays = torch.zeros_like(before, dtype=torch.bool)
        stays[order] = ordered.cumsum(0) - ordered < p
        wanted = before * stays / (before * stays).sum()
        if is_close(found, wanted):
            continue
        given = f"for {values} and p = {p}"
        if is_close(found, before * stays):
            raise Wrong(
                f"{given} the probabilities sum to {found.sum():.2f}, not to 1",
                "divide what is left by its sum.",
            )
        if is_close(found, wanted.sort(descending=True).values):
            raise Wrong(
                f"{given} the probabilities are no longer in the order of the vocabulary",
                "put each probability back where it came from.",
            )
        if not (found > 0).any() or found.isnan().any():
            raise Wrong(f"{given} no token is left", "the token that reaches p belongs to them.")
        if torch.equal(found > 0, before >= p) or torch.equal(found > 0, before > p):
            raise Wrong(
                f"{given} only tokens that have the probability p on their own are left",
                "add up the probabilities, from the likeliest on.",
            )
        if (found > 0).sum() < stays.sum():
            raise Wrong(
                f"{given} the tokens that are left reach only {before[found > 0].sum():.2f}",
                "the token that reaches p belongs to them.",
            )
        if (found > 0).sum() > stays.sum():
            raise Wrong(
                f"{given} it leaves {int((found > 0).sum())} tokens, not {int(stays.sum())}",
                "begin with the likeliest, and stop as soon as p is reached.",
            )
        raise Wrong(f"{given} it is {[round(each, 4) for each in found.tolist()]}")
    found = function.tensor(torch.tensor([0.3, 0.7]), 0.0, shape=(2,))
    if not is_close(found, torch.tensor([0.0, 1.0])):
        raise Wrong("with p = 0 no token is left", "the likeliest token always stays.")


@exercise
def previous_token_share(function: Solution) -> None:
    """How much of its attention each head gives to the token before"""
    for heads, length in ((3, 6), (2, 4)):
        weights = _causal_weights(heads, length)
        found = function.tensor(weights, shape=(heads,))
        each = weights.diagonal(-1, -2, -1)
        if is_close(found, each.mean(-1)):
            continue
        if is_close(found, weights.diagonal(0, -2, -1).mean(-1)):
            raise Wrong("it measures how much a token looks at itself", "which diagonal is it?")
        if is_close(found, weights.diagonal(1, -2, -1).mean(-1)):
            raise Wrong(
                "it measures how much a token looks at the next one",
                "rows are those who look, columns those who are looked at.",
            )
        if is_close(found, each.sum(-1) / length):
            raise Wrong(
                "the first position counts, which has no token before it",
                f"of {length} positions, {length - 1} have one.",
            )
        if is_close(found, each.sum(-1)):
            raise Wrong("it is the sum over the positions, not the mean")
        if is_close(found, each.amax(-1)):
            raise Wrong("it is the largest weight of each head, not the mean")
        raise Wrong(
            f"for head 0 it is {found[0]:.4f}, not {each.mean(-1)[0]:.4f}",
            "position i gives the token before it the weight in row i, column i − 1.",
        )


LOOKS_BACK = 0.35
"""The share of its attention from which a head counts as one that looks one token back."""


@exercise
def previous_token_head(run: Any, layer: Any, head: Any) -> None:
    """Experiment: the head of a trained GPT that looks one token back"""
    shares = shares_of(run)  # (N, H)
    numbers = []
    for name, number, count in zip(("layer", "head"), (layer, head), shares.shape, strict=True):
        if isinstance(number, Tensor) and number.numel() == 1:
            number = number.item()
        if isinstance(number, bool) or not isinstance(number, int):
            raise Wrong(f"the {name} is {number!r}, not an integer")
        if not 0 <= number < count:
            raise Wrong(
                f"there is no {name} {number}: the model has {count}", "they are counted from 0."
            )
        numbers.append(number)
    layer, head = numbers
    share, best = float(shares[layer, head]), float(shares.max())
    if best < LOOKS_BACK:
        raise Wrong(
            f"no head of this run looks back: the most that one gives to the token before is "
            f"{best:.0%}",
            "train for more steps: such a head appears when the loss suddenly falls faster.",
        )
    if share < max(LOOKS_BACK, 0.9 * best):  # the best on one text may be the next on another
        hint = "compute the share of all heads in all layers, and take the largest."
        before = (layer - 1, head - 1)
        if min(before) >= 0 and float(shares[before]) == best:
            hint = "layers and heads are counted from 0."
        raise Wrong(
            f"on held-out text, head {head} of layer {layer} gives only {share:.0%} of its "
            "attention to the token before; another gives more",
            hint,
        )


def shares_of(run: Any) -> Tensor:
    """How much of its attention each head of a GPT, (N, H), gives to the token before, in the
    beginning of the held-out text of its run."""
    from glassformer.tasks import load
    from glassformer.training.preparation import load_objective

    folder = finished_run(run, "gpt")
    model = load(folder.path).model
    dataset: Any = load_objective(folder.recipe(), folder.path).dataset
    ids = torch.tensor(dataset.validation[: min(model.context_length, 256)].tolist())
    taps = [layer.tap for layer in model.blocks.attentions]
    with torch.inference_mode(), listening(taps) as heard:
        model(ids[None])
    return torch.stack([weights[0][0].diagonal(-1, -2, -1).mean(-1) for weights in heard]).cpu()


@exercise
def remove_scaling(function: Solution) -> None:
    """A GPT in which the division by √d is undone by its weights"""
    for bias, head_dim in ((True, 4), (False, 16)):
        config = GPTConfig(
            vocab_size=11,
            context_length=8,
            num_layers=2,
            num_heads=2,
            d_model=12,
            head_dim=head_dim,
            bias=bias,
        )
        model = GPT(config).eval()
        for weight in model.parameters():
            nn.init.normal_(weight, std=0.3)
        before = copy.deepcopy(model)
        ids = torch.randint(11, (2, 8))
        changed = function(model)
        if any(
            not torch.equal(old, new)
            for old, new in zip(before.parameters(), model.parameters(), strict=True)
        ):
            raise Wrong("it changed the model that it was given", "change a copy: copy.deepcopy.")
        if not isinstance(changed, GPT):
            raise Wrong(f"it returned a {type(changed).__name__}, not a GPT", "return the copy.")
        with torch.no_grad():
            found = changed(ids)
            if is_close(found, wanted := _scaled(model, math.sqrt(head_dim))(ids), 1e-4):
                continue
            if is_close(found, model(ids)):
                raise Wrong("its logits are still those of the model that it was given")
            _explain_scaling(model, ids, found, head_dim)
            where = ", ".join(map(str, first_difference(found, wanted, 1e-4)))
            raise Wrong(
                f"the logit at [{where}] is not that of attention without √d",
                "the scores must be √d times as large, and nothing else may change.",
            )


def _explain_scaling(model: GPT, ids: Tensor, found: Tensor, head_dim: int) -> None:
    """Raise `Wrong` if these are the logits of a typical mistake."""
    root = math.sqrt(head_dim)
    if is_close(found, _scaled(model, head_dim)(ids), 1e-4):
        raise Wrong(
            "the scores are d times as large, not √d times",
            "a score is a product of a query and a key. Were both scaled, or by d, not its root?",
        )
    if is_close(found, _scaled(model, 1 / root)(ids), 1e-4):
        raise Wrong("the scores are divided by √d twice", "the division shall be undone.")
    if is_close(found, _scaled(model, math.sqrt(model.config.d_model))(ids), 1e-4):
        raise Wrong(
            "the scores are scaled by the root of the width of the model",
            "d is the width of one head, head_dim.",
        )
    if is_close(found, _scaled(model, root, bias=False)(ids), 1e-4):
        raise Wrong(
            "only a part of each query has been scaled",
            "a query is W x + b: what about the bias?",
        )
    if is_close(found, _scaled(model, root, layers=1)(ids), 1e-4):
        raise Wrong("only the first layer has been changed")


def _scaled(
    model: GPT,
    factor: float,
    bias: bool = True,
    layers: int | None = None,
) -> GPT:
    """A copy whose scores are larger by a factor."""
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for attention in changed.blocks.attentions[:layers]:
            for name, parameter in attention.query.named_parameters():
                if bias or name == "weight":
                    parameter.mul_(factor)
    return changed


def _causal_weights(heads: int, length: int) -> Tensor:
    scores = 2 * torch.randn(heads, length, length)
    later = torch.ones(length, length).triu(1).bool()
    # A causal head gives nothing to later positions; a mistaken solution may look there.
    return scores.masked_fill(later, -math.inf).softmax(-1)
