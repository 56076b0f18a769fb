"""A language model in use: it continues texts, answers messages and scores texts.

    prompt     →  ids  →  decode (sampling) or beam_search  →  Writer  →  Completion
    messages   →  prompt_ids  →  the same
    text       →  ids  →  log p of each token               →  TextScore

A `Writer` makes the text of one row as it grows, up to its stop, so `stream` and `generate` cannot
differ.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from secrets import randbelow
from typing import Any, overload

import numpy as np
import torch
from pydantic import Field

from glassformer.config import Count, StringTuple, parse
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.beam import MOST_BEAMS, Beams, Hypothesis, beam_search
from glassformer.generation.sampling import Sampling, decode
from glassformer.inspect.inspection import LikelyToken, Subject
from glassformer.models.heads import LanguageModel
from glassformer.nn.layers import refuse_nan
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.tasks.inspecting import InspectsText
from glassformer.tasks.language.chat import Message, newest, prompt_ids, stops
from glassformer.tasks.language.scores import LanguageResult, evaluate_language
from glassformer.tasks.neighbours import NeighbourFinder
from glassformer.tasks.subjects import of_language
from glassformer.tasks.task import Texts, as_list, merged_settings
from glassformer.text.streaming import StopFilter, TextStream
from glassformer.text.tokenizers import Tokenizer
from glassformer.text.words import count_bytes, notes_on_bytes

ONLY_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
ONLY_BEAMS = ("length_penalty", "num_beam_groups", "diversity_penalty")
MOST_TEXTS = 10_000  # for one prompt: more would not fit into memory


class GenerationSettings(Sampling):
    """How to write. Names follow Hugging Face's."""

    max_new_tokens: Count = Field(200, ge=1)
    num_return_sequences: Count = Field(1, ge=1, le=MOST_TEXTS)
    num_beams: Count = Field(1, ge=1, le=MOST_BEAMS)
    """Above 1: the likeliest text as a whole, by beam search, instead of sampling."""
    length_penalty: float = Field(1.0, ge=-10, le=10)
    num_beam_groups: Count = Field(1, ge=1)
    diversity_penalty: float | None = Field(None, ge=0)
    stop: StringTuple = ()
    """The text ends before the first of these."""
    seed: int | None = Field(None, ge=0)
    """Random seed; null: a different text each time."""

    @property
    def beams(self) -> Beams:
        values = {name: getattr(self, name) for name in Beams.model_fields}
        return parse(Beams, values, "the settings", error=UsageError)

    def check_used(self, changes: dict[str, Any]) -> None:
        """Raise if a setting of a call has no effect."""
        if self.num_beams == 1 and (useless := [name for name in ONLY_BEAMS if name in changes]):
            raise UsageError(f"{useless[0]} is for beam search. Set num_beams as well.")
        if self.num_beams > 1 and (useless := [name for name in ONLY_SAMPLING if name in changes]):
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
    """The log-probability by length, in beam search."""

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

    def write(self, hypothesis: Hypothesis) -> Completion:
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


# --- how likely a text is ---
#
#     p(t1 … tN) = p(t1) · Π p(tn | t<n)        n = 2 … N
#
# p(t1) exists only given the end-of-text token that stands between documents in training. It is
# reported on its own, outside the total and the perplexity. Bits per byte are those of `evaluate`
# on a file with this text: of a whole document, from its first token to the end-of-text token after
# it. In a vocabulary without such a token, they begin after t1.


@dataclass(frozen=True)
class TextScore:
    """How likely a text is, token by token. Logarithms are natural."""

    tokens: list[str]
    logprobs: list[float | None]
    """log p(token | the ones before it); None for the first."""
    first_logprob: float | None
    """log p(first token | begin of text), if the model has such a token."""
    document: LanguageResult | None
    """The text evaluated as a document; None if there is only one token, and its probability is
    not known."""
    notes: tuple[str, ...] = ()

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
        return None if self.document is None else self.document.bits_per_byte

    def text(self) -> str:
        """A line for each token, and one for the whole text."""
        logprobs = [self.first_logprob, *self.logprobs[1:]]
        pairs = zip(self.tokens, logprobs, strict=True)
        lines = [f"{_shown(logprob):>8}  {token!r}" for token, logprob in pairs]
        lines[0] += "  (given the beginning of the text; counted only in the bits per byte)"
        perplexity, bits = _shown(self.perplexity), _shown(self.bits_per_byte)
        lines.append(f"total {self.total:.3f}  perplexity {perplexity}  bits per byte {bits}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "logprobs": self.logprobs,
            "total": self.total,
            "first_logprob": self.first_logprob,
            "perplexity": self.perplexity,
            "bits_per_byte": self.bits_per_byte,
        }


@torch.inference_mode()
def score_text(model: LanguageModel, tokenizer: Tokenizer, text: str) -> TextScore:
    """A text longer than the context is read in windows that overlap by half: every token is
    predicted from at least half a context."""
    ids = tokenizer.encode(text)
    if not ids:
        raise GlassformerError("there is no text to score.")
    end, context = tokenizer.end_of_text, model.context_length
    first = list(tokenizer.begins_with)  # which such a model has always read before a text
    begin = first[-1] if first else end
    logprobs = _logprobs(model, [*first, *ids][:context])[len(first) :]
    for start in range(context // 2, len(first) + len(ids) - context // 2, context // 2):
        window = ids[start : start + context]
        fresh = min(len(ids), start + context) - (len(logprobs) + 1)
        logprobs += _logprobs(model, window)[len(window) - 1 - fresh :] if fresh > 0 else []
    size = count_bytes([text], tokenizer)
    framed = np.array(ids if begin is None else [begin, *ids, begin if end is None else end])
    document = evaluate_language(model, framed, size, context) if len(framed) > 1 else None
    return TextScore(
        tokens=[tokenizer.token(id) for id in ids],
        logprobs=[None, *logprobs],
        first_logprob=None if begin is None else _logprobs(model, [begin, ids[0]])[0],
        document=document,
        notes=notes_on_bytes(tokenizer, size),
    )


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _logprobs(model: LanguageModel, ids: list[int]) -> list[float]:
    """log p(id | the ones before it) of every id but the first."""
    row = torch.tensor(ids, device=model.device)
    logits = refuse_nan(model(row[None])[0, :-1].float())
    return logits.log_softmax(-1).gather(1, row[1:, None])[:, 0].tolist()


# --- the verbs ---


class LanguagePredictor(InspectsText, NeighbourFinder):
    """The verbs of a language model: generate, stream, chat, next_tokens, score, neighbours,
    inspect and evaluate."""

    verbs = ("generate", "chat", "score", "neighbours", "inspect", "evaluate")
    preprocessing_class = TextPreprocessing
    settings_class = GenerationSettings
    model: LanguageModel
    preprocessing: TextPreprocessing

    @overload
    def generate(
        self, prompt: str, settings: GenerationSettings | None = None, **changes: Any
    ) -> Completion: ...
    @overload
    def generate(
        self, prompt: Texts, settings: GenerationSettings | None = None, **changes: Any
    ) -> list[Completion]: ...
    def generate(
        self, prompt: str | Texts, settings: GenerationSettings | None = None, **changes: Any
    ) -> Completion | list[Completion]:
        """Continue a prompt. A list gives a list, `num_return_sequences` for each prompt. Settings
        are given as an object, or by the names of its fields.

        >>> model.generate("the quick", max_new_tokens=8, temperature=0.8, seed=1).text
        '...'
        >>> len(model.generate(["the quick", "a lazy"], max_new_tokens=8))
        2
        >>> len(model.generate(["the quick"], max_new_tokens=8, num_return_sequences=3))
        3
        >>> from glassformer import GenerationSettings
        >>> careful = GenerationSettings(temperature=0.2, max_new_tokens=8)
        >>> model.generate("the quick", careful, seed=1).num_tokens
        8
        """
        if isinstance(prompt, str):
            return self.generate_batch([prompt], **_one_text(merged_settings(settings, changes)))[0]
        return self.generate_batch(list(prompt), settings, **changes)

    def generate_batch(
        self, prompts: Sequence[str], settings: GenerationSettings | None = None, **changes: Any
    ) -> list[Completion]:
        """Continue every prompt, each `num_return_sequences` times, all at once.

        >>> [each.prompt for each in model.generate_batch(["the", "a"], max_new_tokens=2)]
        ['the', 'a']
        """
        settings = self._parse(merged_settings(settings, changes))
        encoded = [(prompt, self._prompt_ids(prompt)) for prompt in prompts]
        if settings.num_beams > 1:
            return self._search(encoded, settings)
        writers = [
            self._writer(prompt, ids, settings)
            for prompt, ids in encoded
            for _ in range(settings.num_return_sequences)
        ]
        for _ in self._decode([ids for _, ids in encoded], settings, writers):
            pass
        return [writer.completion() for writer in writers]

    def stream(
        self, prompt: str, settings: GenerationSettings | None = None, **changes: Any
    ) -> Iterator[str]:
        """The text of `generate` for one prompt, piece by piece while it is being written.

        >>> for piece in model.stream("the quick", max_new_tokens=8, seed=1):
        ...     print(piece, end="")
        """
        if not isinstance(prompt, str):
            raise UsageError("stream writes one text. Use generate for a list of prompts.")
        settings = self._parse(_one_text(merged_settings(settings, changes)))
        return self._stream(prompt, self._prompt_ids(prompt), settings)

    def chat(
        self,
        messages: Sequence[Message],
        settings: GenerationSettings | None = None,
        **changes: Any,
    ) -> Iterator[str]:
        """The answer to a conversation, piece by piece while it is being written. A message has a
        `role` (system, user or assistant) and a `content`.

        >>> question = [{"role": "user", "content": "the quick"}]
        >>> "".join(model.chat(question, max_new_tokens=8, seed=1))
        '...'
        """
        values = merged_settings(settings, changes)
        values["stop"] = (*values.get("stop", ()), *stops(self.preprocessing))
        parsed = self._parse(_one_text(values))
        remembered = self.remembered(messages, settings, **changes)
        return self._stream("", prompt_ids(self.preprocessing, remembered), parsed)

    def remembered(
        self,
        messages: Sequence[Message],
        settings: GenerationSettings | None = None,
        **changes: Any,
    ) -> list[Message]:
        """The messages that fit in the context together with an answer: the newest, and an
        instruction at the beginning.

        >>> len(model.remembered([{"role": "user", "content": "the quick"}]))
        1
        """
        longest = self._parse(merged_settings(settings, changes)).max_new_tokens
        context = self.model.context_length
        room = context - min(longest, context // 2)
        return newest(self.preprocessing, messages, room)

    def _stream(self, prompt: str, ids: list[int], settings: GenerationSettings) -> Iterator[str]:
        if settings.num_beams > 1:  # the best text is known only at the end
            return iter([self._search([(prompt, ids)], settings)[0].text])
        writer = self._writer(prompt, ids, settings)
        steps = self._decode([ids], settings, [writer])

        def pieces() -> Iterator[str]:
            shown = 0
            for _ in steps:
                if len(writer.text) > shown:
                    yield writer.text[shown:]
                shown = len(writer.text)
            if rest := writer.completion().text[shown:]:
                yield rest

        return pieces()

    def num_left_out(self, prompt: str | Sequence[Message]) -> int:
        """How many tokens at the beginning of a prompt, or of the messages of a conversation, do
        not fit into the context.

        >>> model.num_left_out("the quick brown")
        0
        """
        if isinstance(prompt, str):
            ids = self._prompt_ids(prompt)
        else:
            ids = prompt_ids(self.preprocessing, prompt)
        return max(0, len(ids) - self.model.context_length)

    @overload
    def next_tokens(self, prompt: str, top: int = 10) -> list[LikelyToken]: ...
    @overload
    def next_tokens(self, prompt: Texts, top: int = 10) -> list[list[LikelyToken]]: ...
    def next_tokens(
        self, prompt: str | Texts, top: int = 10
    ) -> list[LikelyToken] | list[list[LikelyToken]]:
        """The `top` likeliest next tokens with their probabilities. A list gives a list.

        >>> model.next_tokens("the quick", top=1)
        [LikelyToken(token='...', probability=0...)]
        >>> [len(each) for each in model.next_tokens(["the quick", "a"], top=2)]
        [2, 2]
        """
        if top < 1:
            raise UsageError(f"top is {top}, but must be at least 1.")
        if isinstance(prompt, str):
            return self._next_tokens(prompt, top)
        return [self._next_tokens(one, top) for one in prompt]

    @torch.inference_mode()
    def _next_tokens(self, prompt: str, top: int) -> list[LikelyToken]:
        ids = self._prompt_ids(prompt)[-self.model.context_length :]
        hidden = self.model.hidden(torch.tensor([ids], device=self.model.device))
        logits = refuse_nan(self.model.head(hidden[0, -1]).float())
        best = logits.softmax(-1).topk(min(top, logits.numel()))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [LikelyToken(self.tokenizer.token(id), probability) for id, probability in pairs]

    def _subject(self, text: str) -> Subject:
        return of_language(self.model, self.preprocessing, text)

    @overload
    def score(self, text: str) -> TextScore: ...
    @overload
    def score(self, text: Texts) -> list[TextScore]: ...
    def score(self, text: str | Texts) -> TextScore | list[TextScore]:
        """How likely a text is, token by token. A list gives a list.

        >>> model.score("the quick brown fox").perplexity > 1
        True
        >>> likely, unlikely = model.score(["the quick brown fox", "xof nworb"])
        >>> likely.total, likely.tokens, likely.logprobs
        (-..., [...], [None, -...])
        """
        if isinstance(text, str):
            return score_text(self.model, self.tokenizer, text)
        return [score_text(self.model, self.tokenizer, one) for one in text]

    def evaluate(
        self,
        paths: str | Sequence[str],
        text_column: Sequence[str] = (),
        encoding: str = "utf-8",
        context_length: int | None = None,
    ) -> LanguageResult:
        """Loss, perplexity and bits per byte on files of text.

        >>> model.evaluate("held_out.txt").perplexity > 1
        True
        """
        context = self.model.context_length if context_length is None else context_length
        if not 1 <= context <= self.model.context_length:
            raise UsageError(
                f"a context of {context:,} tokens is not possible: the model supports 1 to "
                f"{self.model.context_length:,}."
            )
        with collecting() as happened:
            ids, size = self.preprocessing.read_ids(as_list(paths), text_column, encoding)
        result = evaluate_language(self.model, ids, size, context)
        refuse_nan(torch.tensor(result.loss))
        notes = (*happened.notes(), *notes_on_bytes(self.tokenizer, size))
        return replace(result, notes=notes)

    def _parse(self, changes: dict[str, Any]) -> GenerationSettings:
        settings: GenerationSettings = self.parse_settings(changes)
        settings.check_used(changes)
        return settings

    def _writer(self, prompt: str, ids: list[int], settings: GenerationSettings) -> Writer:
        preprocessing = self.preprocessing
        return Writer(prompt, ids, preprocessing.tokenizer, settings.stop, preprocessing.ends)

    def _prompt_ids(self, prompt: str) -> list[int]:
        tokenizer = self.preprocessing.tokenizer
        ids = [*tokenizer.begins_with, *tokenizer.encode(prompt)]
        if ids:
            return ids
        if tokenizer.end_of_text is None:
            raise GlassformerError(
                "the prompt is empty, but this model has no begin-of-text token to start from."
            )
        return [tokenizer.end_of_text]

    def _search(
        self, prompts: list[tuple[str, list[int]]], settings: GenerationSettings
    ) -> list[Completion]:
        """The best continuations of each prompt by beam search."""
        results = beam_search(
            self.model,
            [ids for _, ids in prompts],
            settings.beams,
            max_new_tokens=settings.max_new_tokens,
            ends=self.preprocessing.ends,
            device=self.model.device,
            prefer_complete=False,
        )
        return [
            self._writer(prompt, ids, settings).write(hypothesis)
            for (prompt, ids), hypotheses in zip(prompts, results, strict=True)
            for hypothesis in hypotheses
        ]

    def _decode(
        self, prompts: list[list[int]], settings: GenerationSettings, writers: list[Writer]
    ) -> Iterator[list[int | None]]:
        """Feed the writers: each step of the iterator is one token of every row."""
        return decode(
            self.model,
            prompts,
            sampling=settings,
            max_new_tokens=settings.max_new_tokens,
            seed=randbelow(2**31) if settings.seed is None else settings.seed,
            num_return_sequences=settings.num_return_sequences,
            is_finished=lambda row, token: writers[row].add(token),
            device=self.model.device,
        )


def _one_text(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings for a single text, whatever the model's defaults are."""
    if (number := settings.get("num_return_sequences", 1)) != 1:
        raise GlassformerError(
            f"num_return_sequences is {number}, but this method generates one text. "
            "Pass a list for several: generate([prompt], …)."
        )
    return settings | {"num_return_sequences": 1}
