"""A model's input, and everything that the model computed on it.

    Subject → Inspection: tokens → states after every layer → attention of every head → predictions

A predictor describes its model and its input as a `Subject`: what to run, and the sequences it
reads or writes, each a `Stream` with its tokens and the blocks that read it. The rest is the same
for all models: GPT, BERT, translators, taggers and classifiers, of texts and of images.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from glassformer.errors import UsageError
from glassformer.inspect import Array, Ids
from glassformer.inspect.capture import (
    Capture,
    WindowedLayer,
    WindowLayer,
    capturing,
    capturing_windows,
)
from glassformer.inspect.heads import (
    HeadEffects,
    head_effects,
    heads_in_windows,
    heads_of,
    lens,
    vector_effects,
)
from glassformer.inspect.page import Frame
from glassformer.inspect.places import Picture
from glassformer.inspect.words import Contexts
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Block, Stack
from glassformer.nn.layers import Embedding
from glassformer.nn.observe import Tap, listening
from glassformer.nn.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from glassformer.tables import aligned, html_notes, html_table
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import counted, percent, shortened

if TYPE_CHECKING:
    from glassformer.inspect.over_time import OverTime


# --- a model with an input ---

CROSS = "cross"  # attention of a decoder to its source
Predicts = Literal["next", "same", "whole", "vector"]
"""What a prediction is about: the token after its position, the one at it, or the whole input.
"vector": nothing is predicted; the output is the vector of the whole input."""


@dataclass(frozen=True)
class Entry:
    """What happens to the embeddings of tokens before the first block."""

    is_widened: bool = False
    """Embeddings are projected to the width of the model."""
    is_scaled: bool = False
    """Embeddings are multiplied by √d_model."""
    has_segments: bool = False
    """The vector of a segment is added."""
    is_normed: bool = False
    """The sum of all vectors is normalized."""
    adds_positions: bool = False
    """The vector of a position is added."""


@dataclass(frozen=True, eq=False)
class Stream:
    """A sequence that a model reads or writes: a text, a source sentence, its translation, the
    patches of an image."""

    name: str
    tokens: list[str]
    ids: list[int]
    stack: Stack | None = None
    """The blocks that read the sequence, if they have the same width."""
    blocks: Sequence[Block] = ()
    """The blocks that read the sequence, if their widths differ."""
    is_rotary: bool = False
    """Whether positions rotate queries and keys."""
    memory: str | None = None
    """Name of the stream that cross-attention attends to, if there is one."""
    memory_taps: Sequence[Tap] = ()
    """A tap for each layer of cross-attention outside the stack."""
    memory_score: str = ""
    """The score of that attention: additive, dot or general (`nn/attention.py`)."""
    tokenizer: Tokenizer | None = None
    """The tokenizer that made the tokens."""
    is_causal: bool = False
    """Whether no token attends to a later one."""
    picture: Picture | None = None
    """The image whose patches are the tokens."""
    windows: Sequence[WindowedLayer] = ()
    """The layers that read the sequence, if they attend in windows of a grid."""
    embedding: Embedding | None = None
    """The embedding table of the tokens."""


@dataclass(frozen=True, eq=False)
class PixelInput:
    """An image as a model reads it; others can be put in its place."""

    values: Tensor
    """(1, C, H, W)"""
    run: Callable[[Tensor], Tensor]
    """The logits of all predictions, (B, P, C), for other images (B, C, H, W)."""
    num_weights: int
    """The number of parameters of the model, to estimate how long a run takes."""


@dataclass(frozen=True, eq=False)
class Member:
    """A part of an ensemble that predicts labels."""

    weight: float
    """Its share in the logits of the prediction, at the temperature of the model."""
    logits: Array
    """(C,) its logits times that share."""


@dataclass(frozen=True, eq=False)
class LinearReadOut:
    """A read-out that is linear once the scale of its norm is held:
    logits = head(Σ share · norm(state)) / temperature."""

    norm: nn.Module
    head: nn.Linear
    temperature: float = 1.0
    shares: Callable[[Tensor], Tensor] | None = None
    """How much each state counts in the vector that is read out, (T,), from the normalised states
    (T, D). None: each state is read out."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and its input, ready to run."""

    model: str
    text: str
    """The input: a text, or the name of an image."""
    streams: tuple[Stream, ...]
    """The sequences; predictions are made from the last one."""
    run: Callable[[], Tensor]
    """Computes the logits of all predictions, (P, C), or the vector of the input, (1, D), by a pass
    through the model."""
    name_of: Callable[[int], str]
    """The token or label that a logit belongs to."""
    predicts: Predicts
    actual: Sequence[int | None]
    """The right token or label of each prediction; None if it is not known."""
    embedding: Tensor | None = None
    """(V, D) the vectors of all tokens of the last stream."""
    positions: nn.Module | None = None
    """The positions of the last stream."""
    entry: Entry = Entry()
    """What else happens to embeddings before the first block."""
    module: nn.Module | None = None
    """The model itself."""
    is_carried: bool = False
    """Whether a page may contain it."""
    preprocessing: Any = None
    """The preprocessing of the model, if a page may contain it."""
    read_out: Callable[[Tensor], Tensor] | None = None
    """Logits (…, C) from the states of the last stream after any layer (…, D), if that is what the
    model does with the last one."""
    linear: LinearReadOut | str = ""
    """How logits are computed from the last states, if they are a sum over what the parts of the
    model add to these; otherwise why they are not."""
    search: Callable[[], dict[str, Any]] | None = None
    """Continues the input by beam search, and returns the search tree."""
    write: Callable[[], str] | None = None
    """What the model writes by greedy decoding: a continuation, a translation."""
    again: "Callable[[Any], Subject] | None" = None
    """Makes the subject of the same input for another checkpoint of the model."""
    history: "Callable[[], OverTime] | None" = None
    """Inspects the same input at all snapshots of the training, if there are any."""
    no_history: str = ""
    """Why there is no history, if a page should report it."""
    separator: str = ""
    """The text between two tokens: empty if tokens include their spaces."""
    num_left_out: int = 0
    """The number of tokens that do not fit into the model's context."""
    part_left_out: Literal["beginning", "middle", "end"] = "middle"
    """The part of the text that these tokens are from."""
    focus: int = -1
    """The prediction that is shown first, and for which each head is ablated."""
    has_several_labels: bool = False
    """Whether any number of labels may apply, each with a probability of its own."""
    run_rows: Callable[[], Tensor] | None = None
    """Computes the logits of all rows, (B, P, C), when a caller replaces the vectors of the streams
    by B rows."""
    pixels: PixelInput | None = None
    """The image of the first stream, if its tokens are patches."""
    read_at: Sequence[int] | None = None
    """The positions that a prediction for the whole input is computed from; None: all."""
    labels: Sequence[str] = ()
    """The labels, if the model predicts labels and not tokens."""
    token_of: Callable[[int], str] | None = None
    """The token of an id of the last stream, if predictions are not tokens."""
    title: str = ""
    """The title of a page (default: the input)."""
    remarks: tuple[str, ...] = ()
    """What the user should know about the input."""
    first_token: int | None = None
    """The token that a page shows first (default: the one whose prediction is in focus)."""
    rollout: Callable[[], Array] | None = None
    """Computes attention rollout: how much each patch of an image contributes to the answer,
    (rows, columns)."""
    contributions: Array | None = None
    """(T, C): how much each token adds to each logit, if the logits are a sum over tokens."""
    bias: Array | None = None
    """(C,): the bias that is added to this sum."""
    members: tuple[Member, ...] = ()
    """The layers, and the bag of n-grams that predicts labels with them: their logits sum to those
    of the prediction."""
    reads_words_alone: bool = False
    """Whether the contribution of a token depends on its own words only."""
    longest_ngram: int = 1
    """The largest number of neighbouring tokens with a joint contribution."""
    reads_letters: bool = False
    """Whether sequences of letters in a word contribute, too."""

    @property
    def head_groups(self) -> dict[str, list[MultiHeadAttention]]:
        """The layers of self-attention of each stream, by its name, and the layers of
        cross-attention of the last stream, as CROSS."""
        groups = {
            stream.name: stream.stack.attentions
            for stream in self.streams
            if stream.stack is not None
        }
        last = self.streams[-1].stack
        return groups | ({CROSS: last.cross_attentions} if last and last.cross_attentions else {})

    @property
    def name_of_token(self) -> Callable[[int], str]:
        return self.token_of or self.name_of

    @property
    def answers_other_inputs(self) -> bool:
        """Whether other vectors or pixels can replace the input, as attribution needs."""
        return self.run_rows is not None or self.pixels is not None

    @property
    def input_name(self) -> str:
        """The key of the input in JSON."""
        return "text" if self.streams[0].picture is None else "image"

    def as_json(self) -> dict[str, Any]:
        """The input as it was read, and what a prediction is about."""
        return {
            "model": self.model,
            self.input_name: self.text,
            "tokens": self.streams[-1].tokens,
            "ids": self.streams[-1].ids,
            "num_tokens_left_out": self.num_left_out,
            "predicts": self.predicts,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        remarks = (*self.remarks, *filter(None, map(_unknown_words, self.streams)))
        if not self.num_left_out:
            return remarks
        return (
            *remarks,
            f"the text is too long: the model reads {len(self.streams[-1].tokens):,} tokens; "
            f"{self.num_left_out:,} from the {self.part_left_out} of the text are left out",
        )


def _unknown_words(stream: Stream) -> str:
    unknown = None if stream.tokenizer is None else stream.tokenizer.unknown
    count = 0 if unknown is None else stream.ids.count(unknown)
    if not count:
        return ""
    return f"{count} of the {len(stream.ids)} tokens of the {stream.name} are unknown to the model"


@torch.inference_mode()
def position_vectors(
    positions: nn.Module | None, length: int, width: int, device: torch.device
) -> Tensor | None:
    """(T, D): the vectors that are added at each position; None for rotary positions."""
    add = getattr(positions, "add", None)
    if add is None:
        return None
    places = torch.arange(length, device=device)
    vectors: Tensor = add(torch.zeros(length, width, device=device), places).float()
    return vectors if vectors.any() else None


def adds_vectors(positions: nn.Module | None) -> bool:
    """Whether the vector of a position is added to its token."""
    return isinstance(positions, LearnedPositions | SinusoidalPositions)


def is_rotary(model: nn.Module) -> bool:
    """Whether positions rotate queries and keys."""
    return any(isinstance(module, RotaryPositions) for module in model.modules())


# --- what the model computed ---

TOP = 10  # likely tokens or labels of each prediction


@dataclass(frozen=True)
class LikelyToken:
    """A token that may come next, or be missing, or a label; and its probability."""

    token: str
    probability: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Prediction:
    """The likeliest tokens or labels at a position, and the right one."""

    position: int | None
    """None if the prediction is about the whole input."""
    options: list[LikelyToken]
    actual: str | None = None
    """The token at the predicted position; None if it is not known."""
    logprob: float | None = None
    """The log-probability of the actual token."""


class Inspection:
    """Everything that a model computed on an input, unrounded. Expensive parts are computed when
    they are first read."""

    def __init__(
        self,
        subject: Subject,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> None:
        """`layers` and `heads` limit the attention that is kept (default: all)."""
        layers, heads = _listed(layers, "layers"), _listed(heads, "heads")
        self.subject = subject
        self._captures: dict[str, Capture] = {}
        self._windows: dict[str, list[WindowLayer]] = {}
        memory: list[list[Tensor]] = []
        with torch.inference_mode(), ExitStack() as around:
            for stream in subject.streams:
                if stream.stack is not None:
                    seen = capturing(stream.stack, layers, heads)
                    self._captures[stream.name] = around.enter_context(seen)
                elif stream.windows:
                    in_windows = capturing_windows(stream.windows, layers, heads)
                    self._windows[stream.name] = around.enter_context(in_windows)
                elif stream.memory_taps:
                    memory = around.enter_context(listening(stream.memory_taps))
            output = subject.run().float().cpu().numpy()
        self._memory = memory
        is_vector = subject.predicts == "vector"
        self.logits: Array = output[:0] if is_vector else output
        """(P, C): the logits of all predictions."""
        self.vector: Array | None = output[0] if is_vector else None
        """(D,): the vector of the whole input, if the model computes one instead of predictions."""
        self.contexts: Contexts | None = None
        """A word of the text in other sentences, if the user asked for it."""

    # --- what the model read ---

    @property
    def stream(self) -> Stream:
        """The last stream, from which predictions are made."""
        return self.subject.streams[-1]

    @property
    def tokens(self) -> list[str]:
        return self.stream.tokens

    def capture(self, stream: Stream | None = None) -> Capture:
        """The attention and states of a stream; an error if the model has no blocks."""
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

    def windows(self, stream: Stream | None = None) -> list[WindowLayer]:
        """The layers that attend in windows of an image; empty if there are none."""
        return self._windows.get((stream or self.stream).name, [])

    # --- what it computed ---

    @property
    def attention(self) -> Array:
        """(L, H, T, T): how much each position attends to each other one."""
        return self.capture().attention

    @property
    def cross_attention(self) -> Array | None:
        """(L, H, T, S): how much each position attends to each position of the source, if any."""
        if self.has_layers:
            return self.capture().cross_attention
        if not self._memory:
            return None
        # A recurrent decoder is heard once for every token, and has one head: (B, 1, S) each.
        layers = [torch.cat([step[0] for step in heard]) for heard in self._memory]  # (T, S)
        return np.stack([weights[None].float().cpu().numpy() for weights in layers])

    @property
    def hidden(self) -> Array:
        """(N + 1, T, D): the states before the first block and after each block."""
        return self.capture().hidden

    # --- what it predicts ---

    @cached_property
    def predictions(self) -> list[Prediction]:
        """One for each position, or one for the whole input."""
        logprobs = self.logprobs
        best = logprobs.topk(min(TOP, logprobs.size(-1)))
        name_of = self.subject.name_of
        predictions = []
        for row, (ids, values) in enumerate(
            zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        ):
            options = [LikelyToken(name_of(id), p) for id, p in zip(ids, values, strict=True)]
            position = None if self.subject.predicts == "whole" else row
            actual = self.subject.actual[row]
            is_there = (
                (None, None) if actual is None else (name_of(actual), float(logprobs[row, actual]))
            )
            predictions.append(Prediction(position, options, *is_there))
        return predictions

    @property
    def logprobs(self) -> Tensor:
        """(P, C): the log-probabilities of all predictions, in double precision."""
        logits = torch.from_numpy(self.logits).double()
        several = self.subject.has_several_labels
        return logsigmoid(logits) if several else logits.log_softmax(-1)

    @property
    def focused(self) -> Prediction:
        """The prediction that is shown first: the last one, or that of the first mask."""
        if not self.predictions:
            raise UsageError(f"this {self.subject.model} has no output layer and predicts nothing.")
        return self.predictions[self.subject.focus]

    @cached_property
    def lens(self) -> list[list[list[LikelyToken]]]:
        """The logit lens: what the model would predict if it stopped after each layer, for N + 1
        layers and T positions (one if the prediction is about the whole input)."""
        ids, p, _ = self._lens
        name = self.subject.name_of
        return [
            [
                [LikelyToken(name(id), value) for id, value in zip(*row, strict=True)]
                for row in zip(*layer, strict=True)
            ]
            for layer in zip(ids.tolist(), p.tolist(), strict=True)
        ]

    @property
    def lens_totals(self) -> Array:
        """(N + 1, T): log Σ e^logit of each prediction of the lens, with p = e^(logit - total)."""
        return self._lens[2]

    @cached_property
    def _lens(self) -> tuple[Ids, Array, Array]:
        read_out = self.subject.read_out
        if read_out is None:
            raise UsageError(f"the layers of {self.subject.model} cannot be read out one by one.")
        device = next(self._stack.parameters()).device
        return lens(self.hidden, read_out, TOP, device, self.subject.has_several_labels)

    @property
    def _stack(self) -> Stack:
        self.capture()  # an error if there are no layers
        if self.stream.stack is None:
            raise TypeError("a stream with a capture has a stack")
        return self.stream.stack

    def effects(self, prediction: int | slice | None = None, of: str | None = None) -> HeadEffects:
        """The effect of ablating each head: on one prediction (default: the one in focus), a slice
        of predictions, or the vector of the input. `of` is the stream whose heads are ablated,
        or "cross" (default: the last stream)."""
        subject = self.subject
        rows = subject.focus if prediction is None else prediction
        if of is not None:
            heads = heads_of(self.head_groups[of])
        elif self.stream.windows:
            heads = heads_in_windows(self.stream.windows)
        else:
            heads = heads_of(self._stack.attentions)
        if self.vector is not None:
            return vector_effects(heads, lambda: subject.run()[0])
        return head_effects(heads, lambda: subject.run()[rows], subject.has_several_labels)

    @property
    def head_groups(self) -> dict[str, list[MultiHeadAttention]]:
        return self.subject.head_groups

    # --- for programs and notebooks ---

    def as_json(self) -> dict[str, Any]:
        """All values of the pictures, unrounded."""
        data = self.subject.as_json()
        data["predictions"] = [asdict(prediction) for prediction in self.predictions]
        if self.vector is not None:
            data["vector"] = self.vector.tolist()
        if self.has_layers:
            capture = self.capture()
            data |= {"layers": capture.layers, "heads": capture.heads}
            data["attention"] = capture.attention.tolist()
        elif windows := self.windows():
            data["windows"] = [layer.as_json() for layer in windows]
        if self.subject.rollout is not None:
            data["rollout"] = self.subject.rollout().tolist()
        if self.subject.contributions is not None:
            data["contributions"] = self.subject.contributions.tolist()
        for stream in self.subject.streams:
            data |= {} if stream.picture is None else stream.picture.as_json()
        for stream in self.subject.streams[:-1]:
            data[f"{stream.name}_tokens"] = stream.tokens
            if stream.name in self._captures:
                data[f"{stream.name}_attention"] = self._captures[stream.name].attention.tolist()
        if (cross := self.cross_attention) is not None:
            data["cross_attention"] = cross.tolist()
        if self.contexts is not None:
            data["contexts"] = self.contexts.as_json()
        return data

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user, such as how much of the text was left out."""
        more = () if self.contexts is None else self.contexts.notes
        return tuple(dict.fromkeys((*self.subject.notes, *more)))

    def text(self) -> str:
        """A table of each token with its prediction."""
        return aligned(*self._table())

    def story(self) -> Frame:
        """The page that `inspect --out story.html` writes. A notebook shows it in a frame."""
        from glassformer.inspect.story import page

        return Frame(page(self))

    def __repr__(self) -> str:
        """A summary on one line, and the notes."""
        length = len(self.tokens)
        parts = [repr(shortened(self.subject.text, 60)), counted(length, "token")]
        if self.has_layers:
            capture = self.capture()
            parts.append(f"attention {(len(capture.layers), len(capture.heads), length, length)}")
            parts.append(f"hidden {(len(capture.states), *capture.states[0].shape)}")
        if self.vector is not None:
            parts.append(f"vector {self.vector.shape}")
        else:
            best = self.focused.options[0]
            parts.append(counted(len(self.predictions), "prediction"))
            parts.append(f"likeliest {best.token!r} {percent(best.probability)}")
        notes = (f"\nnote: {note}" for note in self.notes)
        return f"Inspection({self.subject.model}: {', '.join(parts)}){''.join(notes)}"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the image, if there is one, the notes and the table."""
        notes, table = html_notes(self.notes), html_table(*self._table())
        picture = self.subject.streams[0].picture
        if picture is None:
            return f"{notes}{table}"
        name = escape(picture.name, quote=True)
        image = f'<img src="{picture.image}" alt="{name}" style="max-height: 20rem">'
        return f"{image}{notes}{table}"

    def _table(self) -> tuple[list[str], list[list[str]]]:
        if self.vector is not None:
            last = self.hidden[-1]  # (T, D)
            lengths = np.linalg.norm(last, axis=1) * np.linalg.norm(self.vector)  # (T,)
            alike = last @ self.vector / np.maximum(lengths, 1e-12)
            pairs = zip(self.tokens, alike, strict=True)
            names = ["token", "cosine of its last state and the vector of the text"]
            return names, [[repr(token), f"{value:.3f}"] for token, value in pairs]
        what = "comes next" if self.subject.predicts == "next" else "is there"
        names = ["token", "prediction", f"what {what}, and its probability"]
        rows = []
        for prediction in self.predictions:
            position, logprob = prediction.position, prediction.logprob
            whole = f"the whole {self.subject.input_name}"
            where = whole if position is None else repr(self.tokens[position])
            best = ", ".join(
                f"{option.token!r} {percent(option.probability)}"
                for option in prediction.options[:3]
            )
            actual = (
                "" if logprob is None else f"{prediction.actual!r} {percent(math.exp(logprob))}"
            )
            rows.append([where, best, actual])
        return names, rows


def _listed(numbers: Sequence[int] | int | None, what: str) -> list[int] | None:
    """The layers or heads that a user passed: a number, a list, or None for all."""
    if numbers is None:
        return None
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    if not listed or not all(isinstance(number, int) for number in listed):
        raise UsageError(f"{what} is a list of numbers, counted from 0, or None for all of them.")
    return listed
