"""Writing: the settings of generation, and a text that grows token by token up to its stop."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import Field

from glassformer.config import Count, Names, parse
from glassformer.errors import UsageError
from glassformer.generation.beam_settings import MOST_BEAMS, Beams
from glassformer.generation.hypotheses import Hypothesis
from glassformer.generation.logits import Sampling
from glassformer.text.streaming import StopFilter, TextStream
from glassformer.text.tokenizers import Tokenizer

ONLY_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
MOST_TEXTS = 10_000  # for one prompt: more would not fit into memory
ONLY_BEAMS = ("length_penalty", "num_beam_groups", "diversity_penalty")


class GenerationSettings(Sampling):
    """How to write. Names follow Hugging Face's."""

    max_new_tokens: Count = Field(200, ge=1)
    num_return_sequences: Count = Field(1, ge=1, le=MOST_TEXTS)
    num_beams: Count = Field(1, ge=1, le=MOST_BEAMS)
    """Above 1: the likeliest text as a whole, by beam search, instead of sampling."""
    length_penalty: float = Field(1.0, ge=-10, le=10)
    num_beam_groups: Count = Field(1, ge=1)
    diversity_penalty: float | None = Field(None, ge=0)
    stop: Names = ()
    """The text ends before the first of these."""
    seed: int | None = Field(None, ge=0)
    """The same seed writes the same text; null: a different one each time."""

    @property
    def beams(self) -> Beams:
        values = {name: getattr(self, name) for name in Beams.model_fields}
        return parse(Beams, values, "the settings", error=UsageError)

    def check_used(self, given: dict[str, Any]) -> None:
        """Raise if a setting that was given has no effect."""
        if self.num_beams == 1 and (useless := [name for name in ONLY_BEAMS if name in given]):
            raise UsageError(f"{useless[0]} is for beam search. Set num_beams as well.")
        if self.num_beams > 1 and (useless := [name for name in ONLY_SAMPLING if name in given]):
            raise UsageError(f"beam search does not sample. Leave out {useless[0]}.")


@dataclass(frozen=True)
class Completion:
    """What the model wrote after a prompt."""

    prompt: str
    text: str
    finish_reason: str
    """stop: a stop string or the end of the text; length: max_new_tokens were written."""
    num_tokens: int
    score: float | None = None
    """In beam search, the log-probability by length."""

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        if self.score is None:
            del values["score"]
        return values


class Writer:
    """The text of one row as it grows, up to its stop."""

    def __init__(
        self,
        prompt: str,
        ids: list[int],
        tokenizer: Tokenizer,
        stops: Sequence[str],
        ends: Sequence[int] = (),
    ) -> None:
        """`ends` are tokens that end the text, besides the end of text."""
        self.prompt = prompt
        self.text = ""
        self.num_tokens = 0
        self._end = tokenizer.end_of_text
        self._ends = {self._end, *ends}
        self._stream = TextStream(tokenizer, before=ids)
        self._filter = StopFilter(stops)
        self._ended = False

    def add(self, token: int) -> bool:
        """Append a token. True when the text is complete."""
        if token in self._ends:
            self._ended = True
            return True
        self.num_tokens += 1
        self.text += self._filter.push(self._stream.push(token))
        return self._filter.stopped

    def written(self, hypothesis: Hypothesis) -> Completion:
        """The completion of a whole sequence at once."""
        end = [self._end] if hypothesis.is_complete and self._end is not None else []
        for token in (*hypothesis.ids, *end):
            if self.add(token):
                break
        return replace(self.completion(), score=hypothesis.score)

    def completion(self) -> Completion:
        self.text += self._filter.push(self._stream.flush()) + self._filter.flush()
        stopped = self._ended or self._filter.stopped
        reason = "stop" if stopped else "length"
        return Completion(self.prompt, self.text, reason, self.num_tokens)
