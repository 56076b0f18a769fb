"""A language model with its tokenizer: it writes, it continues, and it says how likely a text is.

    p(t1 … tN) = p(t1) · Π p(tn | t<n)        n = 2 … N

p(t1) exists only given a begin-of-text token; it is reported on its own, outside the total.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from secrets import randbelow
from typing import Any

import numpy as np
import torch
from pydantic import Field

from glassformer.config import Count, Names, parse
from glassformer.data.corpus import read_documents
from glassformer.data.tokens import ids_of
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.beam import MOST_BEAMS, Beams, Hypothesis, beam_search
from glassformer.generation.logits import Sampling, checked
from glassformer.generation.sample import decode
from glassformer.models.language_model import LanguageModel
from glassformer.text.streaming import StopFilter, TextStream
from glassformer.text.tokenizers import Tokenizer
from glassformer.training.evaluate import Evaluation, evaluate

WHERE = "the settings of generation"
# What says how to draw a token has no say where none is drawn.
ONLY_SAMPLED = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


class Settings(Sampling):
    """How to write. Names follow Hugging Face's."""

    max_new_tokens: Count = Field(200, ge=1)
    num_return_sequences: Count = Field(1, ge=1)
    num_beams: Count = Field(1, ge=1, le=MOST_BEAMS)
    """Above 1: the likeliest text as a whole, by beam search, instead of sampling."""
    length_penalty: float = Field(1.0, ge=-10, le=10)
    num_beam_groups: Count = Field(1, ge=1)
    diversity_penalty: float | None = Field(None, ge=0)
    stop: Names = ()
    """Writing ends before the first of these."""
    seed: int | None = Field(None, ge=0)
    """The same seed writes the same text; null: another one each time."""

    @property
    def sampling(self) -> Sampling:
        return Sampling(**{name: getattr(self, name) for name in Sampling.model_fields})

    @property
    def beams(self) -> Beams | None:
        if self.num_beams == 1:
            return None
        values = {name: getattr(self, name) for name in Beams.model_fields}
        return parse(Beams, values, WHERE, error=UsageError)


@dataclass(frozen=True)
class Completion:
    """What the model wrote after a prompt."""

    prompt: str
    text: str
    finish_reason: str
    """stop: a stop string or the end of the text; length: max_new_tokens were written, or, in beam
    search, the context was full."""
    num_tokens: int
    score: float | None = None
    """Of beam search: the log-probability by length; else None."""

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        return (
            values if self.score is not None else {k: v for k, v in values.items() if k != "score"}
        )


@dataclass(frozen=True)
class Candidate:
    """A token that may come next."""

    token: str
    probability: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Score:
    """How likely a text is, token by token. Logarithms are natural."""

    tokens: list[str]
    logprobs: list[float | None]
    """log p(token | the ones before it); None for the first."""
    first_logprob: float | None
    """log p(first token | begin of text), if the model has such a token."""
    num_bytes: int

    @property
    def total(self) -> float:
        """log p(t2 … tN | t1)."""
        return math.fsum(value for value in self.logprobs if value is not None)

    @property
    def perplexity(self) -> float | None:
        """1 / the geometric mean of the probabilities; None if there is only one token."""
        if len(self.tokens) < 2:
            return None
        return math.exp(min(700.0, -self.total / (len(self.tokens) - 1)))

    @property
    def bits_per_byte(self) -> float | None:
        """Of the whole text; None if there is only one token, about which nothing is known."""
        if len(self.tokens) < 2:
            return None
        return -self.total / math.log(2) / self.num_bytes

    def as_json(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "logprobs": self.logprobs,
            "total": self.total,
            "first_logprob": self.first_logprob,
            "perplexity": self.perplexity,
            "bits_per_byte": self.bits_per_byte,
        }


class LanguagePredictor:
    """The verbs of a language model: generate, stream, next_tokens, score, evaluate."""

    def __init__(
        self, model: LanguageModel, tokenizer: Tokenizer, defaults: dict[str, Any] | None = None
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.defaults = defaults or {}

    def generate(self, prompt: str, **settings: Any) -> Completion:
        """Continue `prompt`. The settings are those of `Settings`."""
        (completion,) = self.generate_batch([prompt], **_one_text(settings))
        return completion

    def generate_batch(self, prompts: Sequence[str], **settings: Any) -> list[Completion]:
        """Continue every prompt, each `num_return_sequences` times, all at once."""
        chosen = self._settings(settings)
        encoded = [(prompt, self._prompt_ids(prompt)) for prompt in prompts]
        if chosen.beams is not None:
            return self._searched(encoded, chosen, chosen.beams)
        writers = [
            _Writer(prompt, ids, self.tokenizer, chosen.stop)
            for prompt, ids in encoded
            for _ in range(chosen.num_return_sequences)
        ]
        for _ in self._decode([ids for _, ids in encoded], chosen, writers):
            pass
        return [writer.completion() for writer in writers]

    def stream(self, prompt: str, **settings: Any) -> Iterator[str]:
        """The text of `generate`, piece by piece as it is written; joined, it is the same."""
        chosen = self._settings(_one_text(settings))
        ids = self._prompt_ids(prompt)
        if chosen.beams is not None:  # which text is the best shows only at the end
            return iter([self._searched([(prompt, ids)], chosen, chosen.beams)[0].text])
        writer = _Writer(prompt, ids, self.tokenizer, chosen.stop)
        steps = self._decode([ids], chosen, [writer])

        def pieces() -> Iterator[str]:
            shown = 0
            for _ in steps:
                if len(writer.text) > shown:
                    yield writer.text[shown:]
                shown = len(writer.text)
            if rest := writer.completion().text[shown:]:
                yield rest

        return pieces()

    @torch.inference_mode()
    def next_tokens(self, prompt: str, top: int = 10) -> list[Candidate]:
        """The `top` likeliest next tokens with their probabilities."""
        if top < 1:
            raise UsageError(f"top is {top}: at least 1 token must be asked for.")
        ids = self._prompt_ids(prompt)[-self.model.context_length :]
        hidden = self.model.hidden(torch.tensor([ids], device=self.model.device))
        logits = checked(self.model.head(hidden[0, -1]).float())
        best = logits.softmax(-1).topk(min(top, logits.numel()))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Candidate(self.tokenizer.token(id), probability) for id, probability in pairs]

    @torch.inference_mode()
    def score(self, text: str) -> Score:
        """How likely is `text`?

        A text longer than the context is read in windows that overlap by half: every token is
        judged with at least half a context before it.
        """
        ids = self.tokenizer.encode(text)
        if not ids:
            raise GlassformerError("there is no text to score.")
        begin = self.tokenizer.end_of_text
        first = None
        if begin is not None:
            first = self._logprobs([begin, ids[0]])[0]
        context = self.model.context_length
        logprobs = self._logprobs(ids[:context])
        for start in range(context // 2, len(ids) - context // 2, context // 2):
            window = ids[start : start + context]
            fresh = min(len(ids), start + context) - (len(logprobs) + 1)
            logprobs += self._logprobs(window)[len(window) - 1 - fresh :] if fresh > 0 else []
        return Score(
            tokens=[self.tokenizer.token(id) for id in ids],
            logprobs=[None, *logprobs],
            first_logprob=first,
            num_bytes=len(text.encode()),
        )

    def evaluate(
        self,
        paths: str | Iterable[str],
        text_column: Sequence[str] = (),
        encoding: str = "utf-8",
        context_length: int | None = None,
    ) -> Evaluation:
        """Loss, perplexity and bits per byte on files of text."""
        context = self.model.context_length if context_length is None else context_length
        if not 1 <= context <= self.model.context_length:
            raise UsageError(
                f"a context of {context:,} tokens was asked for, and the model sees from 1 to "
                f"{self.model.context_length:,} at once."
            )
        names = [paths] if isinstance(paths, str) else paths
        documents = list(read_documents(names, text_column, encoding))
        pieces = ids_of(documents, self.tokenizer)
        ids = np.concatenate([np.array(piece, dtype=np.uint32) for piece in pieces])
        if len(ids) < 2:
            raise GlassformerError("there are fewer than two tokens of text to evaluate on.")
        num_bytes = sum(len(document.text.encode()) for document in documents)
        found = evaluate(self.model, ids, num_bytes, context)
        checked(torch.tensor(found.loss))
        return found

    def _settings(self, settings: dict[str, Any]) -> Settings:
        found = parse(Settings, self.defaults | settings, WHERE, error=UsageError)
        useless = [name for name in ONLY_SAMPLED if found.num_beams > 1 and name in settings]
        if useless:
            raise UsageError(f"beam search draws nothing by lot: leave out {useless[0]}.")
        of_beams = ("length_penalty", "num_beam_groups", "diversity_penalty")
        if alone := [name for name in of_beams if found.num_beams == 1 and name in settings]:
            raise UsageError(f"{alone[0]} is for beam search: say num_beams, too.")
        return found

    def _prompt_ids(self, prompt: str) -> list[int]:
        ids = self.tokenizer.encode(prompt)
        if ids:
            return ids
        if self.tokenizer.end_of_text is None:
            raise GlassformerError(
                "the prompt is empty, and this model has no begin-of-text token."
            )
        return [self.tokenizer.end_of_text]

    def _searched(
        self, prompts: list[tuple[str, list[int]]], chosen: Settings, beams: Beams
    ) -> list[Completion]:
        """The best continuations of each prompt by beam search. Of a prompt that fills the context,
        its newer half is read."""
        context = self.model.context_length
        completions = []
        for prompt, ids in prompts:  # one at a time: how much fits behind each is its own affair
            read = ids if len(ids) < context else ids[-max(1, context // 2) :]
            (found,) = beam_search(
                self.model,
                [read],
                beams,
                max_new_tokens=chosen.max_new_tokens,
                end=self.tokenizer.end_of_text,
                device=self.model.device,
            )
            for each in found:
                writer = _Writer(prompt, ids, self.tokenizer, chosen.stop)
                completions.append(writer.written(each))
        return completions

    def _decode(
        self, prompts: list[list[int]], chosen: Settings, writers: "list[_Writer]"
    ) -> Iterator[list[int | None]]:
        """Let the writers write; each turn of the iterator is one token of every row."""
        return decode(
            self.model,
            prompts,
            sampling=chosen.sampling,
            max_new_tokens=chosen.max_new_tokens,
            seed=randbelow(2**31) if chosen.seed is None else chosen.seed,
            num_return_sequences=chosen.num_return_sequences,
            is_finished=lambda row, token: writers[row].add(token),
            device=self.model.device,
        )

    def _logprobs(self, ids: list[int]) -> list[float]:
        """log p(id | the ones before it) of every id but the first."""
        logits = checked(self.model(torch.tensor([ids], device=self.model.device))[0, :-1].float())
        chosen = torch.tensor(ids[1:], device=self.model.device)[:, None]
        return logits.log_softmax(-1).gather(1, chosen)[:, 0].tolist()


def _one_text(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings for a single text, whatever number the model's defaults have."""
    if (number := settings.get("num_return_sequences", 1)) != 1:
        raise GlassformerError(
            f"num_return_sequences is {number}, and this writes one text. "
            "generate_batch([prompt], …) writes several."
        )
    return settings | {"num_return_sequences": 1}


class _Writer:
    """One row's text as it grows, up to its stop."""

    def __init__(
        self, prompt: str, ids: list[int], tokenizer: Tokenizer, stops: Sequence[str]
    ) -> None:
        self.prompt = prompt
        self.text = ""
        self.num_tokens = 0
        self._end = tokenizer.end_of_text
        self._stream = TextStream(tokenizer, before=ids)
        self._filter = StopFilter(stops)
        self._ended = False

    def add(self, token: int) -> bool:
        """Take a token; True when the text is complete."""
        if token == self._end:
            self._ended = True
            return True
        self.num_tokens += 1
        self.text += self._filter.push(self._stream.push(token))
        return self._filter.stopped

    def written(self, found: Hypothesis) -> Completion:
        """All of a sequence at once."""
        end = [self._end] if found.is_complete and self._end is not None else []
        for token in (*found.ids, *end):
            if self.add(token):
                break
        return replace(self.completion(), score=found.score)

    def completion(self) -> Completion:
        self.text += self._filter.push(self._stream.flush()) + self._filter.flush()
        stopped = self._ended or self._filter.stopped
        reason = "stop" if stopped else "length"
        return Completion(self.prompt, self.text, reason, self.num_tokens)
