"""A decoder without a model: a function says what comes after the tokens a row has seen."""

import math
from dataclasses import dataclass, replace
from random import Random

import torch

VOCABULARY = 7


@dataclass
class TableState:
    rows: list[list[int]]
    padding: list[int]
    capacity: int

    def reorder(self, indices):
        rows = [self.rows[index] for index in indices]
        return replace(self, rows=rows, padding=[self.padding[index] for index in indices])


class TableDecoder:
    """`predict` gives the logits after a row's tokens. `seen` are those tokens, step by step."""

    def __init__(self, predict, context_length=None):
        self.predict = predict
        self.context_length = context_length
        self.started = []  # (memory, number of rows) of every start
        self.seen = []

    def start(self, memory, padding, capacity):
        self.started.append((memory, len(padding)))
        return TableState([[] for _ in padding], padding.tolist(), capacity)

    def step(self, ids, state):
        state = replace(
            state, rows=[old + new for old, new in zip(state.rows, ids.tolist(), strict=True)]
        )
        assert len(state.rows[0]) <= state.capacity
        text = [row[skip:] for row, skip in zip(state.rows, state.padding, strict=True)]
        self.seen.append(text)
        return torch.tensor([self.predict(row) for row in text]), state


def last_token(table):
    """Logits from a table of probabilities: row t is what comes after token t."""
    return lambda tokens: [math.log(p) if p else -math.inf for p in table[tokens[-1]]]


def all_tokens(tokens):
    """Logits that every token and its place have a say in, each time the same."""
    random = Random(str(tokens))
    return [random.gauss(0, 2) for _ in range(VOCABULARY)]


def window_after(prompt, written, context_length):
    """The rule of `sampling.py` for one row alone: what is seen before the next token."""
    window = list(prompt) if context_length is None else list(prompt[-context_length:])
    for token in written:
        full = len(window) == context_length
        window.append(token)
        if full:
            window = window[-max(1, context_length // 2) :]
    return window


def written_naively(predict, prompt, context_length, count):
    """Greedy decoding without a state: everything seen is looked at anew for every token."""
    written = []
    for _ in range(count):
        logits = predict(window_after(prompt, written, context_length))
        written.append(max(range(len(logits)), key=logits.__getitem__))
    return written
