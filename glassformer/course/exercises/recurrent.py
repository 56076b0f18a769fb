"""The notebook on recurrent networks: steps, what is forgotten, Seq2Seq and alignment."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from glassformer.config import flatten
from glassformer.course.checking import (
    Solution,
    Wrong,
    check_same_but,
    exercise,
    expect,
    final_scores,
    finished_run,
)

Step = Callable[[int, int], tuple[Tensor, int]]


@exercise
def rnn_step(function: Solution) -> None:
    """One step of a recurrent network: tanh(W x + U h + b)"""
    for batch, width, d_model in ((3, 5, 4), (1, 2, 6)):
        x, state = torch.randn(batch, width), torch.randn(batch, d_model)
        w_x, w_h = torch.randn(d_model, width), torch.randn(d_model, d_model)
        bias = torch.randn(d_model)
        found = function.tensor(x, state, w_x, w_h, bias, shape=(batch, d_model))
        read, kept = x @ w_x.T, state @ w_h.T
        wanted = (read + kept + bias).tanh()
        typical = {
            "there is no tanh": (read + kept + bias, "it keeps all numbers between −1 and 1."),
            "it has a sigmoid instead of the tanh": (
                (read + kept + bias).sigmoid(),
                "states may be negative, too.",
            ),
            "the old state has no part in it": (
                (read + bias).tanh(),
                "a network without its state forgets everything at once.",
            ),
            "the old state is added without its matrix": (
                (read + state + bias).tanh(),
                "W_h comes first.",
            ),
            "the bias is missing": ((read + kept).tanh(), "three terms are added."),
            "the bias is added after the tanh": (
                (read + kept).tanh() + bias,
                "the tanh is of the whole sum.",
            ),
            "the tanh is taken of each part": (
                read.tanh() + kept.tanh() + bias,
                "the tanh is of the whole sum.",
            ),
            "the matrix of the state is used the wrong way round": (
                (read + state @ w_h + bias).tanh(),
                "W_h h for a row h is h @ W_h.T.",
            ),
        }
        expect(found, wanted, "compare with the equation, term by term.", typical)


@exercise
def gru_step(function: Solution) -> None:
    """One step of a gated recurrent unit"""
    for batch, width, d in ((3, 5, 4), (1, 2, 6)):
        x, h = torch.randn(batch, width), torch.randn(batch, d)
        w_x, w_h = torch.randn(3 * d, width), torch.randn(3 * d, d)
        b_x, b_h = torch.randn(3 * d), torch.randn(3 * d)
        found = function.tensor(x, h, w_x, w_h, b_x, b_h, shape=(batch, d))
        x_r, x_z, x_n = (x @ w_x.T + b_x).chunk(3, dim=-1)
        h_r, h_z, h_n = (h @ w_h.T + b_h).chunk(3, dim=-1)
        r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
        new = (x_n + r * h_n).tanh()
        wanted = torch.gru_cell(x, h, w_x, w_h, b_x, b_h)
        early = (x_n + (r * h) @ w_h[2 * d :].T + b_h[2 * d :]).tanh()
        exchanged = (x_n + z * h_n).tanh()
        typical = {
            "the update gate works the wrong way round": (
                z * new + (1 - z) * h,
                "z is the share of the old state that stays.",
            ),
            "the two gates are exchanged": (
                (1 - r) * exchanged + r * h,
                "the first third of the rows belongs to r.",
            ),
            "the reset gate has no effect": (
                (1 - z) * (x_n + h_n).tanh() + z * h,
                "r multiplies the part of n that comes from the old state.",
            ),
            "the reset gate multiplies the state before the matrix": (
                (1 - z) * early + z * h,
                "r ⊙ (U h + c): the product comes last.",
            ),
            "the new state has no part of the old one": (
                (1 - z) * new,
                "two terms are added in the last line.",
            ),
            "it returns n, not the mixture": (new, "the last line mixes it with the old state."),
            "n has a sigmoid": (
                (1 - z) * (x_n + r * h_n).sigmoid() + z * h,
                "only gates are between 0 and 1.",
            ),
        }
        expect(found, wanted, "compare r, z and n with the equations, one by one.", typical)


@exercise
def forgetting(near: Any, far: Any) -> None:
    """An experiment: a recurrent network finds a word that is near, and forgets one that is far"""
    runs = [finished_run(path, "rnn-classifier") for path in (near, far)]
    recipes = [run.recipe() for run in runs]
    values = [dict(flatten(recipe.model_dump(mode="json"))) for recipe in recipes]
    for name, each in zip(("near", "far"), values, strict=True):
        if each["model.bag"]:
            raise Wrong(
                f"the model of the run {name} also has a bag of words, which forgets nothing",
                "set model.bag to False.",
            )
        if each["model.bidirectional"]:
            raise Wrong(
                f"the model of the run {name} reads in both directions",
                "backwards, the first word is the last: set model.bidirectional to False.",
            )
        if each["model.pooling"] != "last":
            raise Wrong(
                f"the model of the run {name} looks at the states of all words "
                f"(model.pooling is {each['model.pooling']})",
                "set it to last: only the last state counts.",
            )
    check_same_but(runs[0], runs[1], ["data.paths", "model.context_length"])
    if (values[0]["model.context_length"] or 0) > (values[1]["model.context_length"] or 0):
        raise Wrong("the texts of the first run are the longer ones", "pass near first, then far.")
    found, lost = (float(final_scores(run)["accuracy"]) for run in runs)
    chance = 1 / len(values[0]["model.labels"])
    if found < 0.9:
        raise Wrong(
            f"the run near has a test accuracy of {found:.2f}: it has not learned the task",
            "choose a smaller distance, or train longer, before you say that the other forgot.",
        )
    if lost > (found + chance) / 2:
        raise Wrong(
            f"the run far has a test accuracy of {lost:.2f}: it has not forgotten",
            "put more words between the first and the end.",
        )


@exercise
def teacher_forcing(function: Solution) -> None:
    """The logits of a decoder that reads the true tokens, (T, V)"""
    for length in (5, 1):
        decoder = _Decoder(vocabulary=7)
        target = torch.randint(1, 6, (length,)).tolist()
        found = function(decoder.step, 10, 0, target)
        if isinstance(found, list) and found and isinstance(found[0], Tensor):
            raise Wrong("it returned a list of tensors, not a tensor", "torch.stack joins them.")
        if not isinstance(found, Tensor):
            raise Wrong(f"it returned a {type(found).__name__}, not a tensor")
        read, wanted = decoder.tokens, [0, *target[:-1]]
        if read == [*target]:
            raise Wrong(
                "the decoder reads each token before it predicts it",
                "it reads start first, and the target one step later.",
            )
        if read == [0, *target]:
            raise Wrong(
                "the decoder also reads the last token of the target", "nothing comes after it."
            )
        _check_states(decoder)
        for number, (token, right) in enumerate(zip(read, wanted, strict=False)):
            if token == right:
                continue
            if number and token == int(decoder.logits[number - 1].argmax()):
                raise Wrong(
                    f"in step {number} the decoder reads token {token}, its own prediction, not "
                    f"{right}, the target's",
                    "the teacher says what came before, whatever the decoder thinks.",
                )
            raise Wrong(f"in step {number} the decoder reads token {token}, not {right}")
        if len(read) != length:
            raise Wrong(f"the decoder takes {len(read)} steps for a target of {length} tokens")
        if tuple(found.shape) != (length, 7):
            raise Wrong(f"its shape is {tuple(found.shape)}, not {(length, 7)}")
        expect(found, torch.stack(decoder.logits), "row t holds the logits of step t.")


@exercise
def feed_back(function: Solution) -> None:
    """The tokens that a decoder writes, fed with its own words"""
    for seed in range(4):
        for most in (12, 3, 1):
            torch.manual_seed(seed)
            decoder = _Decoder(vocabulary=7)
            wanted = _written(decoder, 10, 0, 6, most)
            decoder.forget()
            found = function(decoder.step, 10, 0, 6, most)
            if not isinstance(found, list):
                raise Wrong(f"it returned a {type(found).__name__}, not a list")
            found = [int(token) for token in found]
            if found == wanted and len(decoder.tokens) <= most:
                continue
            if decoder.tokens[:1] != [0]:
                raise Wrong("the first token that the decoder reads is not start")
            _check_states(decoder)
            chosen = [int(logits.argmax()) for logits in decoder.logits]
            for number, token in enumerate(decoder.tokens[1:], 1):
                if token != chosen[number - 1]:
                    raise Wrong(
                        f"in step {number} the decoder reads token {token}, but its likeliest was "
                        f"{chosen[number - 1]}",
                        "feed back the argmax of the last logits.",
                    )
            if 6 in chosen[:-1]:
                raise Wrong(
                    f"it goes on after the token end, which it wrote in step {chosen.index(6)}",
                    "leave the loop at end.",
                )
            if found[:1] == [0] and found[1:] == wanted:
                raise Wrong("the list begins with start", "return only what was written.")
            if found == [*wanted, 6]:
                raise Wrong("the list contains end", "look before you append.")
            if len(found) > most or len(decoder.tokens) > most:
                raise Wrong(f"it takes {len(decoder.tokens)} steps, where most is {most}")
            raise Wrong(f"it returned {found}, not {wanted}, for most={most}")


class _Decoder:
    """A decoder without a network: its logits are a table of the last token and the state."""

    def __init__(self, vocabulary: int) -> None:
        self.table = torch.randn(40, vocabulary, vocabulary)
        self.table[:, :, 0] = -9  # start is never written
        self.forget()

    def forget(self) -> None:
        self.tokens: list[int] = []
        self.states: list[int] = []
        self.logits: list[Tensor] = []

    def step(self, token: Any, state: Any) -> tuple[Tensor, int]:
        if len(self.tokens) > 30:
            raise Wrong("it takes more than 30 steps and does not stop", "when does the loop end?")
        self.tokens.append(int(token))
        self.states.append(int(state))
        logits = self.table[int(state) % 40, int(token)]
        self.logits.append(logits)
        return logits.clone(), int(state) + 1


def _written(decoder: _Decoder, state: int, start: int, end: int, most: int) -> list[int]:
    token, written = start, list[int]()
    for _ in range(most):
        logits, state = decoder.step(token, state)
        token = int(logits.argmax())
        if token == end:
            break
        written.append(token)
    return written


def _check_states(decoder: _Decoder) -> None:
    for number, state in enumerate(decoder.states):
        if state != 10 + number:
            raise Wrong(
                f"step {number} does not get the state that the step before returned",
                "step returns two things, the logits and the new state.",
            )


@exercise
def additive_attention(function: Solution) -> None:
    """The context of additive attention: Σ softmax(v · tanh(W h + U s)) h"""
    for batch, length, d, e, a in ((3, 5, 4, 6, 8), (2, 7, 5, 5, 5)):
        state, encoded = torch.randn(batch, d), torch.randn(batch, length, e)
        w_state, w_encoded, v = torch.randn(a, d), torch.randn(a, e), torch.randn(a)
        given = (state, encoded, w_state, w_encoded, v)
        try:
            found = function.tensor(*given, shape=(batch, e))
        except Wrong as wrong:
            hint = "weights of shape (B, S, 1) multiply the states, (B, S, E), as they are."
            raise Wrong(wrong.problem, hint) from wrong
        asked, keys = (state @ w_state.T)[:, None], encoded @ w_encoded.T
        both = asked + keys  # (B, S, A)
        scores = both.tanh() @ v  # (B, S)

        def mixed(weights: Tensor, encoded: Tensor = encoded) -> Tensor:
            return (weights[..., None] * encoded).sum(1)

        typical = {
            "all places have the same weight": (
                encoded.mean(1),
                "the scores do not depend on the encoder's states: which two things are added?",
            ),
            "the scores do not depend on the decoder's state": (
                mixed((keys.tanh() @ v).softmax(1)),
                "which two things are added?",
            ),
            "there is no tanh": (
                mixed((both @ v).softmax(1)),
                "without it, the decoder's state adds the same number to all scores.",
            ),
            "the softmax runs along the batch": (
                mixed(scores.softmax(0)),
                "the weights of all places of one sentence sum to 1.",
            ),
            "the scores themselves are used as weights": (
                mixed(scores),
                "weights are positive and sum to 1.",
            ),
            "the states are added up without weights": (encoded.sum(1), "where are the weights?"),
            "the weights are divided by the number of places, too": (
                mixed(scores.softmax(1)) / length,
                "they sum to 1 already: take the sum, not the mean.",
            ),
            "the scores are divided by √d": (
                mixed((scores / math.sqrt(a)).softmax(1)),
                "that belongs to dot products.",
            ),
        }
        if e == a:
            typical["it mixes W h, not the states"] = (
                mixed(scores.softmax(1), keys),
                "the values are the states themselves.",
            )
        expect(found, mixed(scores.softmax(1)), "compute e, then w, then c.", typical)
