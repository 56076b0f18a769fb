"""Typical wrong solutions of the notebook on GPT, and words of what is said about each."""

import copy
import math
from typing import Any

import torch


def product_of_probabilities(logits: Any, ids: Any) -> Any:
    return logits[:-1].softmax(-1).gather(1, ids[1:, None]).prod().log()


def softmax_then_log(logits: Any, ids: Any) -> Any:
    return logits[:-1].softmax(-1).gather(1, ids[1:, None]).log().sum()


def probabilities_divided(logits: Any, temperature: float) -> Any:
    return logits.softmax(0) / temperature


def by_hand(logits: Any, temperature: float) -> Any:
    exponentials = (logits / temperature).exp()
    return exponentials / exponentials.sum()


def nucleus(probabilities: Any, p: float, *, reaches: bool = True, sort: bool = False) -> Any:
    """The reference, or without the token that reaches p, or in the order of the sort."""
    ordered, order = probabilities.sort(descending=True)
    together = ordered.cumsum(0)
    kept = ordered * (together - ordered < p if reaches else together <= p)
    if not sort:
        kept = torch.zeros_like(kept).scatter(0, order, kept)
    return kept / kept.sum()


def not_divided(probabilities: Any, p: float) -> Any:
    return torch.where(nucleus(probabilities, p) > 0, probabilities, 0.0)


def each_alone(probabilities: Any, p: float) -> Any:
    kept = torch.where(probabilities >= min(p, probabilities.max()), probabilities, 0.0)
    return kept / kept.sum()


def scaled(
    model: Any,
    power: float = 0.5,
    parts: tuple[str, ...] = ("query",),
    bias: bool = True,
    width: int | None = None,
    layers: int | None = None,
) -> Any:
    changed = copy.deepcopy(model)
    with torch.no_grad():
        for layer in changed.blocks.attentions[:layers]:
            for part in parts:
                for name, parameter in getattr(layer, part).named_parameters():
                    if bias or name == "weight":
                        parameter *= (width or layer.head_dim) ** power
    return changed


def in_place(model: Any) -> Any:
    with torch.no_grad():
        for layer in model.blocks.attentions:
            layer.query.weight *= math.sqrt(layer.head_dim)
    return model


WRONG: dict[str, list[tuple[str, Any]]] = {
    "next_token_pairs": [
        ("repeats the token", lambda w: (w[:, :-1], w[:, :-1])),
        ("before its input", lambda w: (w[:, 1:], w[:, :-1])),
        ("T tokens with a successor", lambda w: (w, w[:, 1:])),
        ("two tensors", lambda w: w[:, 1:]),
        ("not from window to window", lambda w: (w[:, :-1], w.roll(-1, 0)[:, 1:])),
        ("not the first T tokens", lambda w: (w[:, 1:], w[:, :1].expand(-1, w.size(1) - 1))),
    ],
    "text_log_probability": [
        ("its own row", lambda z, t: z.log_softmax(-1).gather(1, t[:, None]).sum()),
        ("which function normalises", lambda z, t: z[:-1].gather(1, t[1:, None]).sum()),
        ("not the sum", lambda z, t: z[:-1].log_softmax(-1).gather(1, t[1:, None]).mean()),
        ("at most 0", lambda z, t: -z[:-1].log_softmax(-1).gather(1, t[1:, None]).sum()),
        ("not its logarithm", lambda z, t: z[:-1].softmax(-1).gather(1, t[1:, None]).prod()),
        ("1,000 tokens", product_of_probabilities),
        ("use log_softmax", softmax_then_log),
        ("not a number", lambda z, t: z[:-1].log_softmax(-1).gather(1, t[1:, None])),
    ],
    "perplexity": [
        ("mean of exponentials", lambda x: (-x).exp().mean()),
        ("raises 2 to a power", lambda x: 2 ** (-x.mean())),
        ("takes the sum", lambda x: (-x.sum()).exp()),
        ("the loss itself", lambda x: -x.mean()),
        ("mind the sign", lambda x: x.mean().exp()),
        ("5,000 tokens", lambda x: x.exp().prod() ** (-1 / len(x))),
    ],
    "with_temperature": [
        ("multiply or divide", lambda z, t: (z * t).softmax(0)),
        ("no effect", lambda z, t: z.softmax(0)),
        ("returns logits", lambda z, t: z / t),
        ("before the softmax", probabilities_divided),
        ("gives NaN", by_hand),
    ],
    "top_p": [
        ("divide what is left", not_divided),
        ("where it came from", lambda x, p: nucleus(x, p, sort=True)),
        ("the token that reaches p", lambda x, p: nucleus(x, min(p, 0.95), reaches=False)),
        ("on their own", each_alone),
        ("begin with the likeliest", lambda x, p: x),
        ("always stays", nucleus),
    ],
    "previous_token_share": [
        ("at itself", lambda w: w.diagonal(0, -2, -1).mean(-1)),
        ("the next one", lambda w: w.diagonal(1, -2, -1).mean(-1)),
        ("which has no token before it", lambda w: w.diagonal(-1, -2, -1).sum(-1) / w.size(-1)),
        ("not the mean", lambda w: w.diagonal(-1, -2, -1).sum(-1)),
        ("largest weight", lambda w: w.diagonal(-1, -2, -1).amax(-1)),
        ("its shape", lambda w: w.diagonal(-1, -2, -1).mean()),
    ],
    "remove_scaling": [
        ("a copy", in_place),
        ("Were both scaled", lambda m: scaled(m, parts=("query", "key"))),
        ("by d, not its root", lambda m: scaled(m, power=1.0)),
        ("divided by √d twice", lambda m: scaled(m, power=-0.5)),
        ("what about the bias", lambda m: scaled(m, bias=False)),
        ("width of one head", lambda m: scaled(m, width=m.config.d_model)),
        ("only the first layer", lambda m: scaled(m, layers=1)),
        ("nothing else may change", lambda m: scaled(m, parts=("value",))),
        ("not a GPT", lambda m: scaled(m).state_dict()),
        ("still those", copy.deepcopy),
    ],
}
