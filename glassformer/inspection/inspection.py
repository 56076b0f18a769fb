"""An input and what a model made of it, looked at from every side.

    tokens → states after every layer → attention of every head → predictions

A predictor describes its model and its input as a `Subject`. The rest is the same for all models:
GPT, BERT, translators, taggers and classifiers.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from glassformer.errors import UsageError
from glassformer.inspection.ablation import HeadEffects, head_effects
from glassformer.inspection.capture import Array, Capture, capturing
from glassformer.inspection.lens import lens
from glassformer.nn.blocks import Stack
from glassformer.nn.observe import Tap, listening
from glassformer.tables import aligned, html_table

TOP = 10  # likely tokens or labels of each prediction

Predicts = Literal["next", "same", "whole"]
"""What a prediction is about: the token after its position, the one at it, or the whole input."""


@dataclass(frozen=True, eq=False)
class Stream:
    """A sequence that a model reads or writes: a text, a source sentence, its translation."""

    name: str
    tokens: list[str]
    ids: list[int]
    stack: Stack | None = None
    """The blocks that read it, if the model has such."""
    memory: str | None = None
    """Name of the stream that it attends to as well, if there is one."""
    memory_taps: Sequence[Tap] = ()
    """Where it does so, if not in its stack: a tap for each layer."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and its input, ready to run."""

    model: str
    text: str
    streams: tuple[Stream, ...]
    """The last one is what predictions are made from."""
    run: Callable[[], Tensor]
    """Computes the logits of all predictions, (P, C), by a pass through the model."""
    name_of: Callable[[int], str]
    """The token or label that a logit belongs to."""
    predicts: Predicts
    actual: Sequence[int | None]
    """What each prediction should be, as far as that is known."""
    embedding: Tensor | None = None
    """(V, D) the vectors of all tokens of the last stream."""
    positions: nn.Module | None = None
    """What gives the tokens of the last stream their places."""
    module: nn.Module | None = None
    """The model itself, and its preprocessing, if a page may carry them."""
    preprocessing: Any = None
    read_out: Callable[[Tensor], Tensor] | None = None
    """Logits (…, C) from the states of the last stream after any layer (…, D), if that is what the
    model does with the last one."""
    search: Callable[[], dict[str, Any]] | None = None
    """Continues the input by beam search, and returns the tree of it."""
    separator: str = ""
    """What stands between two tokens of a text: nothing if they include their spaces."""
    num_left_out: int = 0
    """Tokens of the text that do not fit into the model's context."""
    part_left_out: Literal["beginning", "middle"] = "middle"
    """Where they are."""
    focus: int = -1
    """The prediction that is looked at first, and without each head."""
    has_several_labels: bool = False
    """Any number of labels may apply: each has a probability of its own."""
    caveat: str = ""
    """What else decides the predictions than the layers that can be looked at."""


@dataclass(frozen=True)
class Likely:
    """A token or a label, and its probability."""

    token: str
    probability: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """What the model predicts at a position, the likeliest first, and what is there."""

    position: int | None
    """None: for the whole input."""
    options: list[Likely]
    actual: str | None = None
    """The token that is there; None if that is not known."""
    logprob: float | None = None
    """Of that token."""


class Inspection:
    """Everything that a model computed on an input. What is expensive is computed when it is first
    asked for; the numbers are those of the model, unrounded."""

    def __init__(
        self,
        subject: Subject,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> None:
        """`layers` and `heads` limit the attention that is kept (default: all)."""
        self.subject = subject
        self._captures: dict[str, Capture] = {}
        memory: list[list[Tensor]] = []
        with torch.inference_mode(), ExitStack() as around:
            for stream in subject.streams:
                if stream.stack is not None:
                    seen = capturing(stream.stack, layers, heads)
                    self._captures[stream.name] = around.enter_context(seen)
                elif stream.memory_taps:
                    memory = around.enter_context(listening(stream.memory_taps))
            logits = subject.run()
        self._memory = memory
        self.logits: Array = logits.float().cpu().numpy()
        """(P, C) of all predictions."""

    # --- what the model read ---

    @property
    def stream(self) -> Stream:
        """The sequence that predictions are made from."""
        return self.subject.streams[-1]

    @property
    def tokens(self) -> list[str]:
        return self.stream.tokens

    def capture(self, stream: Stream | None = None) -> Capture:
        """What the blocks computed on a stream; an error if the model has no blocks."""
        name = (stream or self.stream).name
        if name not in self._captures:
            raise UsageError(
                f"{self.subject.model} has no layers of self-attention: there is nothing to show."
            )
        return self._captures[name]

    def has_capture(self, stream: Stream) -> bool:
        return stream.name in self._captures

    @property
    def has_layers(self) -> bool:
        return self.has_capture(self.stream)

    # --- what it computed ---

    @property
    def attention(self) -> Array:
        """(L, H, T, T) how much each position attends to each other one."""
        return self.capture().attention

    @property
    def cross_attention(self) -> Array | None:
        """(L, H, T, S) how much each position attends to each position of the source, if there is
        one."""
        if self.has_layers:
            return self.capture().cross_attention
        if not self._memory:
            return None
        # A recurrent decoder is heard once for every token, and has one head: (B, 1, S) each.
        layers = [torch.cat([each[0] for each in heard]) for heard in self._memory]  # (T, S)
        return np.stack([each[None].float().cpu().numpy() for each in layers])

    @property
    def hidden(self) -> Array:
        """(N + 1, T, D) the states before the first block and after each block."""
        return self.capture().hidden

    # --- what it predicts ---

    @cached_property
    def predictions(self) -> list[Prediction]:
        """One for each position, or one for the whole input."""
        logits = torch.from_numpy(self.logits).double()  # (P, C)
        several = self.subject.has_several_labels
        logprobs = logsigmoid(logits) if several else logits.log_softmax(-1)
        best = logprobs.topk(min(TOP, logprobs.size(-1)))
        found = []
        for row, (ids, values) in enumerate(
            zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        ):
            options = [
                Likely(self.subject.name_of(id), p) for id, p in zip(ids, values, strict=True)
            ]
            position = None if self.subject.predicts == "whole" else row
            found.append(Prediction(position, options, *self._actual(row, logprobs[row])))
        return found

    @property
    def focused(self) -> Prediction:
        """The prediction that is looked at first: the last one, or that of the first mask."""
        return self.predictions[self.subject.focus]

    def _actual(self, row: int, logprobs: Tensor) -> tuple[str | None, float | None]:
        id = self.subject.actual[row]
        return (None, None) if id is None else (self.subject.name_of(id), float(logprobs[id]))

    @cached_property
    def lens(self) -> list[list[list[Likely]]]:
        """What the model would predict if it stopped after each layer: N + 1 layers, T positions,
        the likeliest first."""
        read_out = self.subject.read_out
        if read_out is None:
            raise UsageError(f"the layers of {self.subject.model} cannot be read out one by one.")
        ids, p = lens(self.hidden, read_out, TOP, self._stack_device)
        name = self.subject.name_of
        return [
            [
                [Likely(name(id), value) for id, value in zip(*row, strict=True)]
                for row in zip(*layer, strict=True)
            ]
            for layer in zip(ids.tolist(), p.tolist(), strict=True)
        ]

    @property
    def _stack(self) -> Stack:
        self.capture()  # an error if there are no layers
        if self.stream.stack is None:
            raise TypeError("a stream with a capture has a stack")
        return self.stream.stack

    @property
    def _stack_device(self) -> torch.device:
        return next(self._stack.parameters()).device

    def effects(self, prediction: int | None = None) -> HeadEffects:
        """How one prediction changes without each head (default: the one in focus)."""
        subject = self.subject
        place = subject.focus if prediction is None else prediction
        return head_effects(self._stack, lambda: subject.run()[place], subject.has_several_labels)

    # --- for programs and notebooks ---

    def as_json(self) -> dict[str, Any]:
        """Every number behind the pictures, unrounded."""
        found: dict[str, Any] = {
            "model": self.subject.model,
            "text": self.subject.text,
            "tokens": self.tokens,
            "ids": self.stream.ids,
            "num_tokens_left_out": self.subject.num_left_out,
            "predicts": self.subject.predicts,
            "predictions": [asdict(each) for each in self.predictions],
        }
        if self.has_layers:
            capture = self.capture()
            found |= {"layers": capture.layers, "heads": capture.heads}
            found["attention"] = capture.attention.tolist()
        for stream in self.subject.streams[:-1]:
            found[f"{stream.name}_tokens"] = stream.tokens
            if stream.name in self._captures:
                found[f"{stream.name}_attention"] = self._captures[stream.name].attention.tolist()
        if (cross := self.cross_attention) is not None:
            found["cross_attention"] = cross.tolist()
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        number, shown = self.subject.num_left_out, len(self.tokens)
        found = [self.subject.caveat] if self.subject.caveat else []
        if number:
            found.append(
                f"the text is too long: the model reads {shown:,} tokens; {number:,} from the "
                f"{self.subject.part_left_out} of the text are left out"
            )
        return tuple(found)

    def text(self) -> str:
        """For people: each token with what was predicted there."""
        return aligned(*self._table())

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return html_table(*self._table())

    def _table(self) -> tuple[list[str], list[list[str]]]:
        names = ["token", "prediction", "probability of what is there"]
        rows = []
        for each in self.predictions:
            place = "the whole text" if each.position is None else repr(self.tokens[each.position])
            best = ", ".join(f"{one.token!r} {one.probability:.1%}" for one in each.options[:3])
            known = "" if each.logprob is None else f"{each.actual!r} {math.exp(each.logprob):.1%}"
            rows.append([place, best, known])
        return names, rows
