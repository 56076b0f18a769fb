"""Typical wrong solutions of the notebook on recurrent networks, and words of what is said about
each."""

from typing import Any

import torch


def gru(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any) -> tuple[Any, ...]:
    """r, z, and both parts of n."""
    x_r, x_z, x_n = (x @ w_x.T + b_x).chunk(3, -1)
    h_r, h_z, h_n = (h @ w_h.T + b_h).chunk(3, -1)
    return (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid(), x_n, h_n


def wrong_way(x: Any, h: Any, *weights: Any) -> Any:
    r, z, x_n, h_n = gru(x, h, *weights)
    return z * (x_n + r * h_n).tanh() + (1 - z) * h


def exchanged(x: Any, h: Any, *weights: Any) -> Any:
    z, r, x_n, h_n = gru(x, h, *weights)
    return (1 - z) * (x_n + r * h_n).tanh() + z * h


def without_reset(x: Any, h: Any, *weights: Any) -> Any:
    _, z, x_n, h_n = gru(x, h, *weights)
    return (1 - z) * (x_n + h_n).tanh() + z * h


def early_reset(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any, b_h: Any) -> Any:
    r, z, x_n, _ = gru(x, h, w_x, w_h, b_x, b_h)
    d = h.size(-1)
    return (1 - z) * (x_n + (r * h) @ w_h[2 * d :].T + b_h[2 * d :]).tanh() + z * h


def only_new(x: Any, h: Any, *weights: Any) -> Any:
    r, _, x_n, h_n = gru(x, h, *weights)
    return (x_n + r * h_n).tanh()


def forced(read: Any, advance: bool = True) -> Any:
    """A loop that reads what `read(start, target, logits so far)` gives."""

    def loop(step: Any, state: Any, start: Any, target: Any) -> Any:
        rows: list[Any] = []
        for _ in target:
            logits, new = step(read(start, target, rows), state)
            state = new if advance else state
            rows.append(logits)
        return torch.stack(rows)

    return loop


def teacher(start: Any, target: Any, rows: Any) -> Any:
    return [start, *target][len(rows)]


def with_last(step: Any, state: Any, start: Any, target: Any) -> Any:
    rows = []
    for token in [start, *target]:
        logits, state = step(token, state)
        rows.append(logits)
    return torch.stack(rows)


def as_list(step: Any, state: Any, start: Any, target: Any) -> Any:
    return list(forced(teacher)(step, state, start, target))


def fed(
    pick: Any = torch.argmax, stop: bool = True, advance: bool = True, late: bool = False
) -> Any:
    def loop(step: Any, state: Any, start: Any, end: Any, most: Any) -> Any:
        token, written = start, []
        for _ in range(most):
            logits, new = step(token, state)
            state = new if advance else state
            token = int(pick(logits))
            if late:
                written.append(token)
            if stop and token == end:
                break
            if not late:
                written.append(token)
        return written

    return loop


def always_start(step: Any, state: Any, start: Any, end: Any, most: Any) -> Any:
    written: list[int] = []
    while len(written) < most:
        logits, state = step(start, state)
        if (token := int(logits.argmax())) == end:
            break
        written.append(token)
    return written


def until_end(step: Any, state: Any, start: Any, end: Any, most: Any) -> Any:
    token, written = start, []
    while token != end:
        logits, state = step(token, state)
        token = int(logits.argmax())
        written.append(token)
    return written[:-1]


def mixed(weights: Any, values: Any) -> Any:
    return (weights[..., None] * values).sum(1)


def printed(state: Any, encoded: Any, w_s: Any, w_h: Any, v: Any) -> Any:
    """As lecture 3 prints it: the decoder's state twice."""
    both = (state @ w_s.T + state @ w_s.T)[:, None].expand(-1, encoded.size(1), -1)
    return mixed((both.tanh() @ v).softmax(1), encoded)


def printed_weights(state: Any, encoded: Any, w_s: Any, w_h: Any, v: Any) -> Any:
    """As lecture 3 prints it: weights (B, S, 1) with one dimension more."""
    both = encoded @ w_h.T + (state @ w_s.T)[:, None]
    weights = (both.tanh() @ v[:, None]).softmax(1)
    return (weights.unsqueeze(2) * encoded).sum(1)


def scores(state: Any, encoded: Any, w_s: Any, w_h: Any, v: Any) -> Any:
    return (encoded @ w_h.T + (state @ w_s.T)[:, None]).tanh() @ v


WRONG: dict[str, list[tuple[str, Any]]] = {
    "rnn_step": [
        ("no tanh", lambda x, h, w, u, b: x @ w.T + h @ u.T + b),
        ("sigmoid", lambda x, h, w, u, b: (x @ w.T + h @ u.T + b).sigmoid()),
        ("no part in it", lambda x, h, w, u, b: (x @ w.T + b).tanh()),
        ("wrong way round", lambda x, h, w, u, b: (x @ w.T + h @ u + b).tanh()),
        ("bias is missing", lambda x, h, w, u, b: (x @ w.T + h @ u.T).tanh()),
        ("after the tanh", lambda x, h, w, u, b: (x @ w.T + h @ u.T).tanh() + b),
        ("it raised RuntimeError", lambda x, h, w, u, b: (x @ w + h @ u + b).tanh()),
    ],
    "gru_step": [
        ("that stays", wrong_way),
        ("are exchanged", exchanged),
        ("reset gate has no effect", without_reset),
        ("before the matrix", early_reset),
        ("not the mixture", only_new),
        ("its shape", lambda *given: torch.cat(gru(*given)[:2], -1)),
    ],
    "teacher_forcing": [
        ("before it predicts it", forced(lambda start, target, rows: target[len(rows)])),
        (
            "its own prediction",
            forced(lambda start, target, rows: int(rows[-1].argmax()) if rows else start),
        ),
        ("the last token of the target", with_last),
        ("does not get the state", forced(teacher, advance=False)),
        ("a list of tensors", as_list),
    ],
    "feed_back": [
        ("feed back the argmax", always_start),
        ("feed back the argmax", fed(pick=torch.argmin)),
        ("goes on after the token end", fed(stop=False)),
        ("contains end", fed(late=True)),
        ("does not get the state", fed(advance=False)),
        ("does not stop", lambda *given: until_end(*given[:3], -1, given[4])),
        ("not a list", lambda *given: torch.tensor(fed()(*given))),
    ],
    "additive_attention": [
        ("all places have the same weight", printed),
        ("as they are", printed_weights),
        (
            "there is no tanh",
            lambda s, h, a, b, v: mixed(((h @ b.T + (s @ a.T)[:, None]) @ v).softmax(1), h),
        ),
        ("along the batch", lambda s, h, *w: mixed(scores(s, h, *w).softmax(0), h)),
        ("used as weights", lambda s, h, *w: mixed(scores(s, h, *w), h)),
        ("not the mean", lambda s, h, *w: mixed(scores(s, h, *w).softmax(1), h) / h.size(1)),
        ("its shape", lambda s, h, *w: mixed(scores(s, h, *w).softmax(1), h @ w[1].T)),
    ],
}
