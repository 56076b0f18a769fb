"""A language model in use: it continues texts and scores them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from secrets import randbelow
from typing import Any, overload

import torch

from glassformer.data.reading_report import collecting
from glassformer.errors import GlassformerError, UsageError
from glassformer.evaluation.language import LanguageResult, evaluate_language
from glassformer.generation.beam import beam_search
from glassformer.generation.logits import refuse_nan
from glassformer.generation.sample import decode
from glassformer.inspection.subject import Subject
from glassformer.models.language_model import LanguageModel
from glassformer.predict.chat_template import Message, newest, prompt_ids, stops
from glassformer.predict.inspecting import InspectsText
from glassformer.predict.neighbour_search import NeighbourFinder
from glassformer.predict.predictor import LikelyToken, Texts, given, names_of
from glassformer.predict.subjects import of_language
from glassformer.predict.text_score import TextScore, score_text
from glassformer.predict.writing import Completion, GenerationSettings, Writer
from glassformer.preprocessing.text import TextPreprocessing
from glassformer.text.byte_count import notes_on_bytes


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
            return self.generate_batch([prompt], **_one_text(given(settings, changes)))[0]
        return self.generate_batch(list(prompt), settings, **changes)

    def generate_batch(
        self, prompts: Sequence[str], settings: GenerationSettings | None = None, **changes: Any
    ) -> list[Completion]:
        """Continue every prompt, each `num_return_sequences` times, all at once.

        >>> [each.prompt for each in model.generate_batch(["the", "a"], max_new_tokens=2)]
        ['the', 'a']
        """
        chosen = self._settings(given(settings, changes))
        encoded = [(prompt, self._prompt_ids(prompt)) for prompt in prompts]
        if chosen.num_beams > 1:
            return self._searched(encoded, chosen)
        writers = [
            self._writer(prompt, ids, chosen)
            for prompt, ids in encoded
            for _ in range(chosen.num_return_sequences)
        ]
        for _ in self._decode([ids for _, ids in encoded], chosen, writers):
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
        chosen = self._settings(_one_text(given(settings, changes)))
        return self._streamed(prompt, self._prompt_ids(prompt), chosen)

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
        changed = given(settings, changes)
        changed["stop"] = (*changed.get("stop", ()), *stops(self.preprocessing))
        chosen = self._settings(_one_text(changed))
        kept = self.remembered(messages, settings, **changes)
        return self._streamed("", prompt_ids(self.preprocessing, kept), chosen)

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
        longest = self._settings(given(settings, changes)).max_new_tokens
        context = self.model.context_length
        room = context - min(longest, context // 2)
        return newest(self.preprocessing, messages, room)

    def _streamed(self, prompt: str, ids: list[int], chosen: GenerationSettings) -> Iterator[str]:
        if chosen.num_beams > 1:  # the best text is known only at the end
            return iter([self._searched([(prompt, ids)], chosen)[0].text])
        writer = self._writer(prompt, ids, chosen)
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
        return [self._next_tokens(each, top) for each in prompt]

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
        return [score_text(self.model, self.tokenizer, each) for each in text]

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
            ids, size = self.preprocessing.read_ids(names_of(paths), text_column, encoding)
        result = evaluate_language(self.model, ids, size, context)
        refuse_nan(torch.tensor(result.loss))
        notes = (*happened.notes(), *notes_on_bytes(self.tokenizer, size))
        return replace(result, notes=notes)

    def _settings(self, settings: dict[str, Any]) -> GenerationSettings:
        chosen: GenerationSettings = self.chosen_settings(settings)
        chosen.check_used(settings)
        return chosen

    def _writer(self, prompt: str, ids: list[int], chosen: GenerationSettings) -> Writer:
        return Writer(prompt, ids, self.tokenizer, chosen.stop, self.preprocessing.ends)

    def _prompt_ids(self, prompt: str) -> list[int]:
        ids = [*self.tokenizer.begins_with, *self.tokenizer.encode(prompt)]
        if ids:
            return ids
        if self.tokenizer.end_of_text is None:
            raise GlassformerError(
                "the prompt is empty, but this model has no begin-of-text token to start from."
            )
        return [self.tokenizer.end_of_text]

    def _searched(
        self, prompts: list[tuple[str, list[int]]], chosen: GenerationSettings
    ) -> list[Completion]:
        """The best continuations of each prompt by beam search."""
        results = beam_search(
            self.model,
            [ids for _, ids in prompts],
            chosen.beams,
            max_new_tokens=chosen.max_new_tokens,
            ends=self.preprocessing.ends,
            device=self.model.device,
            prefer_complete=False,
        )
        return [
            self._writer(prompt, ids, chosen).written(each)
            for (prompt, ids), several in zip(prompts, results, strict=True)
            for each in several
        ]

    def _decode(
        self, prompts: list[list[int]], chosen: GenerationSettings, writers: list[Writer]
    ) -> Iterator[list[int | None]]:
        """Feed the writers: each step of the iterator is one token of every row."""
        return decode(
            self.model,
            prompts,
            sampling=chosen,
            max_new_tokens=chosen.max_new_tokens,
            seed=randbelow(2**31) if chosen.seed is None else chosen.seed,
            num_return_sequences=chosen.num_return_sequences,
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
