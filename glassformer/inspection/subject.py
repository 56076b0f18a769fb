"""A model with an input, as a predictor describes it to those who look inside."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from glassformer.inspection.capture import Array
from glassformer.inspection.picture import Picture
from glassformer.inspection.window_capture import WindowedLayer
from glassformer.nn.attention import MultiHeadAttention
from glassformer.nn.blocks import Block, Stack
from glassformer.nn.observe import Tap
from glassformer.nn.token_embedding import Embedding
from glassformer.text.tokenizers import Tokenizer

if TYPE_CHECKING:
    from glassformer.inspection.over_time import OverTime

CROSS = "cross"  # attention of a decoder to its source
Predicts = Literal["next", "same", "whole", "vector"]
"""What a prediction is about: the token after its position, the one at it, or the whole input.
"vector": nothing is predicted; the output is the vector of the whole input."""


@dataclass(frozen=True)
class Entry:
    """What is done to the vectors of tokens before the first block, beside adding positions."""

    is_widened: bool = False
    """They are projected to the width of the model."""
    is_scaled: bool = False
    """They are multiplied by √d_model."""
    has_segments: bool = False
    """The vector of a segment is added to them."""
    is_normed: bool = False
    """Their sum with the others is normalized."""
    adds_positions: bool = False
    """The vector of a position is added to them."""


@dataclass(frozen=True, eq=False)
class Stream:
    """A sequence that a model reads or writes: a text, a source sentence, its translation, the
    patches of an image."""

    name: str
    tokens: list[str]
    ids: list[int]
    stack: Stack | None = None
    """The blocks that read it, if the model has such."""
    blocks: Sequence[Block] = ()
    """The same if their widths differ: then they are no stack."""
    is_rotary: bool = False
    """Positions rotate queries and keys."""
    memory: str | None = None
    """Name of the stream that it attends to as well, if there is one."""
    memory_taps: Sequence[Tap] = ()
    """Where it does so, if not in its stack: a tap for each layer."""
    memory_score: str = ""
    """How places are scored there: additive, dot or general (`nn/recurrent_attention.py`)."""
    tokenizer: Tokenizer | None = None
    """What cut it into tokens."""
    is_causal: bool = False
    """No token attends to a later one."""
    picture: Picture | None = None
    """The image whose places are its tokens."""
    windows: Sequence[WindowedLayer] = ()
    """The layers that read it, if they attend in windows of a grid instead of a stack."""
    embedding: Embedding | None = None
    """The table in which the vectors of its tokens are looked up."""


@dataclass(frozen=True, eq=False)
class PixelInput:
    """An image as a model reads it, in whose place others can be put."""

    values: Tensor
    """(1, C, H, W)"""
    run: Callable[[Tensor], Tensor]
    """The logits of all predictions, (B, P, C), for other images (B, C, H, W)."""
    num_weights: int
    """Of the model, to foresee how long that takes."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and its input, ready to run."""

    model: str
    text: str
    """The input: a text, or the name of an image."""
    streams: tuple[Stream, ...]
    """The last one is what predictions are made from."""
    run: Callable[[], Tensor]
    """Computes the logits of all predictions, (P, C), or the vector of the input, (1, D), by a pass
    through the model."""
    name_of: Callable[[int], str]
    """The token or label that a logit belongs to."""
    predicts: Predicts
    actual: Sequence[int | None]
    """What each prediction should be, as far as that is known."""
    embedding: Tensor | None = None
    """(V, D) the vectors of all tokens of the last stream."""
    positions: nn.Module | None = None
    """What gives the tokens of the last stream their places."""
    entry: Entry = Entry()
    """What else happens to their vectors before the first block."""
    module: nn.Module | None = None
    """The model itself, and its preprocessing, if a page may carry them."""
    preprocessing: Any = None
    read_out: Callable[[Tensor], Tensor] | None = None
    """Logits (…, C) from the states of the last stream after any layer (…, D), if that is what the
    model does with the last one."""
    search: Callable[[], dict[str, Any]] | None = None
    """Continues the input by beam search, and returns the tree of it."""
    write: Callable[[], str] | None = None
    """What the model writes by greedy decoding: a continuation, a translation."""
    again: "Callable[[Any], Subject] | None" = None
    """The same input with the same model at another stage of its training."""
    history: "Callable[[], OverTime] | None" = None
    """The same input through the training of the model, if that is known."""
    no_history: str = ""
    """Why it is not, if a page should say so."""
    separator: str = ""
    """What stands between two tokens of a text: nothing if they include their spaces."""
    num_left_out: int = 0
    """Tokens of the text that do not fit into the model's context."""
    part_left_out: Literal["beginning", "middle", "end"] = "middle"
    """Where they are."""
    focus: int = -1
    """The prediction that is looked at first, and without each head."""
    has_several_labels: bool = False
    """Any number of labels may apply: each has a probability of its own."""
    run_rows: Callable[[], Tensor] | None = None
    """The same as `run` with all rows, (B, P, C): as many as a call puts in place of the vectors of
    the streams."""
    pixels: PixelInput | None = None
    """The image of the first stream, if the patches of it are its tokens."""
    read_at: Sequence[int] | None = None
    """The positions that a prediction for the whole input is read from; None: all of them."""
    labels: Sequence[str] = ()
    """What is predicted, if these are labels and not tokens."""
    token_of: Callable[[int], str] | None = None
    """The name of an id of the last stream, if predictions are something else."""
    title: str = ""
    """What a page is called, if not as the input."""
    remarks: tuple[str, ...] = ()
    """What the user should know about the input."""
    first_token: int | None = None
    """The token that a page shows first (default: the one whose prediction is in focus)."""
    rollout: Callable[[], Array] | None = None
    """(rows, columns): how much each place of an image contributes to the answer, if attention is
    followed through all layers."""
    contributions: Array | None = None
    """(T, C): how much each token adds to each logit, if the logits are a sum over tokens."""
    bias: Array | None = None
    """(C,) what is added to this sum."""
    reads_words_alone: bool = False
    """What a token adds depends on its own words only."""
    longest_ngram: int = 1
    """Then: how many neighbouring tokens may add something together."""
    reads_letters: bool = False
    """Then: sequences of letters in a word add something, too."""

    @property
    def head_groups(self) -> dict[str, list[MultiHeadAttention]]:
        """The layers of attention within each stream, by its name, and those of the last stream to
        another one (CROSS)."""
        found = {
            each.name: each.stack.attentions for each in self.streams if each.stack is not None
        }
        last = self.streams[-1].stack
        return found | ({CROSS: last.cross_attentions} if last and last.cross_attentions else {})

    @property
    def name_of_token(self) -> Callable[[int], str]:
        return self.token_of or self.name_of

    @property
    def input_name(self) -> str:
        """The key of the input in JSON."""
        return "text" if self.streams[0].picture is None else "image"

    def as_json(self) -> dict[str, Any]:
        """What was read, and what a prediction is about."""
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
    number = 0 if unknown is None else stream.ids.count(unknown)
    if not number:
        return ""
    return f"{number} of the {len(stream.ids)} tokens of the {stream.name} are unknown to the model"
