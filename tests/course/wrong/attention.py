"""Typical wrong solutions of the notebook on attention, and words of what is said about each."""

import math
from typing import Any

import torch


def in_place(scores: Any, mask: Any) -> Any:
    scores[~mask] = -math.inf
    return scores.softmax(-1)


WRONG: dict[str, list[tuple[str, Any]]] = {
    "similarity_weights": [
        ("columns sum to 1", lambda x: (x @ x.T).softmax(0)),
        ("negative", lambda x: (x @ x.T) / (x @ x.T).sum(-1, keepdim=True)),
        ("NaN", lambda x: (x @ x.T).exp() / (x @ x.T).exp().sum(-1, keepdim=True)),
        ("keepdim", lambda x: (x @ x.T).exp() / (x @ x.T).exp().sum(1)),
        ("sums to", lambda x: (x @ x.T).sigmoid()),
        ("plain dot products", lambda x: (x @ x.T / math.sqrt(x.size(1))).softmax(-1)),
    ],
    "scaled_dot_product": [
        ("not divided by √d", lambda q, k, v: (q @ k.mT).softmax(-1) @ v),
        ("by d, not by its root", lambda q, k, v: (q @ k.mT / q.size(-1)).softmax(-1) @ v),
        ("number of queries", lambda q, k, v: (q @ k.mT / len(q) ** 0.5).softmax(-1) @ v),
        ("from the end", lambda q, k, v: (q @ k.mT / q.size(-1) ** 0.5).softmax(1) @ v),
        ("used as weights", lambda q, k, v: q @ k.mT / math.sqrt(q.size(-1)) @ v),
        ("of a key sum to 1", lambda q, k, v: (q @ k.mT / math.sqrt(q.size(-1))).softmax(-2) @ v),
        ("only the last two", lambda q, k, v: (q @ k.T / math.sqrt(q.size(-1))).softmax(-1) @ v),
    ],
    "causal_mask": [
        ("is later", lambda n: torch.ones(n, n).bool()),
        ("True means: may attend", lambda n: torch.ones(n, n).triu(1).bool()),
        ("attend to itself", lambda n: torch.ones(n, n).tril(-1).bool()),
        ("not bool", lambda n: torch.ones(n, n).tril()),
        ("its shape", lambda n: torch.ones(n + 1, n).bool()),
    ],
    "masked_weights": [
        ("e^0 is 1", lambda s, m: (s * m).softmax(-1)),
        ("before the softmax", lambda s, m: s.softmax(-1) * m),
        ("NaN", lambda s, m: (s * torch.where(m, 1.0, -math.inf)).softmax(-1)),
        ("True in the mask", lambda s, m: s.softmax(-1) * ~m),
        ("in place", in_place),
        ("allowed scores", lambda s, m: s.masked_fill(m, -math.inf).softmax(-1)),
        ("not weights", lambda s, m: s.masked_fill(~m, -math.inf)),
        ("columns sum", lambda s, m: s.masked_fill(~m, -math.inf).softmax(0)),
    ],
    "split_heads": [
        ("different positions", lambda x, h: x.reshape(h, x.size(0), -1)),
        ("every H-th", lambda x, h: x.view(x.size(0), -1, h).permute(2, 0, 1)),
        ("its shape", lambda x, h: x.view(x.size(0), h, -1)),
    ],
    "entropy": [
        ("sign", lambda w: torch.xlogy(w, w).sum(-1)),
        ("NaN", lambda w: -(w * w.log()).sum(-1)),
        ("in bits", lambda w: -(w * w.clamp_min(1e-30).log2()).sum(-1)),
        ("its shape", lambda w: -torch.xlogy(w, w).sum()),
    ],
}
