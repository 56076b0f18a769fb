"""A masked language model in use: it predicts the tokens behind [MASK]."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import torch
from torch.nn import functional as F

from glassformer.data.batches import ValidationWindows
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.logits import refuse_nan
from glassformer.inspect.inspection import Subject
from glassformer.models.bert import Bert
from glassformer.preprocessing.preprocessing import begins_word
from glassformer.preprocessing.text import MaskedBatch, MaskedTextPreprocessing, Masking
from glassformer.tasks.evaluating import Result, held_out
from glassformer.tasks.inspecting import InspectsText
from glassformer.tasks.neighbours import EmbedsTexts, NeighbourFinder
from glassformer.tasks.subjects import of_masked, of_vector
from glassformer.tasks.task import LikelyToken, Texts, names_of
from glassformer.text.tokenizers import MASKS
from glassformer.text.word_cache import Ids

# --- masked ---
# How well a masked language model predicts hidden tokens.

EVALUATION_SEED = 2**31  # one that no training can have
BATCH_TOKENS = 4096  # read at once


@dataclass(frozen=True)
class MaskedResult(Result):
    """How well a masked language model predicts hidden tokens."""

    score_names = ("loss", "accuracy")
    details = ("num_tokens",)
    loss: float
    accuracy: float
    num_tokens: int
    notes: tuple[str, ...] = ()

    def parts(self) -> list[str]:
        right = f"{self.accuracy:.1%} of {self.num_tokens:,} predicted correctly"
        return [f"loss {self.loss:.4f} per masked token", right]


def evaluate_masked(model: Bert, ids: Ids, masking: Masking) -> MaskedResult:
    """Read all of `ids` once, in windows side by side; the same tokens are hidden each time."""
    windows = ValidationWindows(ids, masking.room, max(1, BATCH_TOKENS // masking.room))
    total, right, count = 0.0, 0, 0
    for batch in masked_batches(model, windows, masking):
        if len(batch.targets):
            logits = model.predict(model.hidden(batch.ids)[batch.is_asked]).float()
            total += F.cross_entropy(logits, batch.targets, reduction="sum").item()
            right += int((logits.argmax(-1) == batch.targets).sum())
            count += len(batch.targets)
    return MaskedResult(total / max(1, count), right / max(1, count), count)


def masked_batches(
    model: Bert, windows: ValidationWindows, masking: Masking
) -> Iterator[MaskedBatch]:
    """Held-out windows, in each of which the same tokens are hidden every time."""

    def masked(number: int) -> MaskedBatch:
        return masking.batch(windows[number][:, :-1], (EVALUATION_SEED, number))

    return held_out(model, range(len(windows)), masked)


# --- masked ---


@dataclass(frozen=True)
class Guess(LikelyToken):
    """A possible token for a mask, and the text with it."""

    text: str


class MaskedPredictor(EmbedsTexts, InspectsText, NeighbourFinder):
    """The verbs of a masked language model: fill, embed, neighbours, inspect and evaluate."""

    verbs = ("fill", "embed", "neighbours", "inspect", "evaluate")
    preprocessing_class = MaskedTextPreprocessing
    model: Bert
    preprocessing: MaskedTextPreprocessing

    @overload
    def fill(self, text: str, top: int = 5) -> list[list[Guess]]: ...
    @overload
    def fill(self, text: Texts, top: int = 5) -> list[list[list[Guess]]]: ...
    def fill(self, text: str | Texts, top: int = 5) -> list[list[Guess]] | list[list[list[Guess]]]:
        """The `top` likeliest tokens for each [MASK] in a text; a list of texts gives a list. A
        mask that stands alone can only be a token that begins a word.

        >>> for guess in model.fill("the quick [MASK] fox", top=2)[0]:
        ...     print(guess.token, guess.probability, guess.text)
        ...
        >>> len(model.fill(["the [MASK] fox", "a [MASK] dog"]))
        2
        """
        if isinstance(text, str):
            return self._fill(text, top)
        return [self._fill(each, top) for each in text]

    def parts(self, text: str) -> list[str]:
        """The text around its masks, which may be written as any model's are.

        >>> model.parts("the [MASK] fox")
        ['the ', ' fox']
        """
        return re.split("|".join(map(re.escape, MASKS)), text)

    @torch.inference_mode()
    def _fill(self, text: str, top: int) -> list[list[Guess]]:
        parts = self.parts(text)
        if len(parts) < 2:
            name = self.preprocessing.mask_name
            raise UsageError(f'there is no {name} in "{text}". Write it where a word is missing.')
        mask, frame = self.preprocessing.mask, self.preprocessing.frame(self.model.context_length)
        ids = self._encoded(parts)
        if frame.is_too_long(ids):
            raise GlassformerError(
                f"the text has {len(ids):,} tokens, but the model reads at most {frame.room:,}. "
                "Use a shorter text."
            )
        shown = torch.tensor([frame.put(ids)], device=self.model.device)
        hidden = self.model.hidden(shown)[0][shown[0] == mask]  # (masks, D)
        logits = refuse_nan(self.model.predict(hidden).float())
        guesses = []
        for place, scores in enumerate(logits.softmax(-1).cpu()):
            order = scores.argsort(descending=True, stable=True)
            if self._is_whole_word(parts, place):
                order = order[self._begins_word[order]]
            best = [(int(id), float(scores[id])) for id in order[:top]]
            guesses.append([self._guess(parts, place, *each) for each in best])
        return guesses

    def _encoded(self, parts: Sequence[str]) -> list[int]:
        """The tokens of a text whose parts stand between masks."""
        ids: list[int] = []
        for part in parts[:-1]:
            before = part.rstrip() if self.preprocessing.mask_takes_blanks else part
            ids += [*self.tokenizer.encode(before), self.preprocessing.mask]
        return ids + self.tokenizer.encode(parts[-1])

    def _subject(self, text: str) -> Subject:
        if not self.model.config.has_head:
            return of_vector(self.model, self.preprocessing, text, self.embedding_length)
        return of_masked(self.model, self.preprocessing, text, self._encoded(self.parts(text)))

    def _framed(self, ids: list[int]) -> tuple[list[int], int]:
        frame = self.preprocessing.frame(None)
        return list(frame.put(ids)), len(frame.before)

    def _is_whole_word(self, parts: list[str], place: int) -> bool:
        """Whether only a token that begins a word can be missing: no letter and no other mask
        touches this one."""
        before, after = parts[place], parts[place + 1]
        touches_mask = (not before and place > 0) or (not after and place + 2 < len(parts))
        if touches_mask or before[-1:].isalnum() or after[:1].isalnum():
            return False
        if self.tokenizer.carries_blanks and not self.preprocessing.mask_takes_blanks:
            return False  # the blank stands before the mask, so the missing token has none
        # Where tokens include blanks, the first token of a word has none after a bracket.
        return before[-1:] in ("", " ", "\n", "\t") or not self.tokenizer.carries_blanks

    @cached_property
    def _begins_word(self) -> torch.Tensor:
        tokenizer, ids = self.tokenizer, range(self.model.head.out_features)
        is_blank = [tokenizer.carries_blanks and not tokenizer.token(id).strip() for id in ids]
        return torch.tensor([begins_word(tokenizer, id) is True and not is_blank[id] for id in ids])

    def _guess(self, parts: list[str], place: int, id: int, probability: float) -> Guess:
        token = self.tokenizer.token(id)
        mask = self.preprocessing.mask_name
        before, after = mask.join(parts[: place + 1]), mask.join(parts[place + 1 :])
        if token.startswith(("##", " ")):
            before = before.rstrip()
        text = f"{before}{token.removeprefix('##')}{after}"
        return Guess(token, probability, text if before else text.lstrip(" "))

    def evaluate(
        self, paths: str | Sequence[str], text_column: Sequence[str] = (), encoding: str = "utf-8"
    ) -> MaskedResult:
        """How many hidden tokens of a text it predicts. As many are hidden as in its training, and
        the same ones each time.

        >>> 0 <= model.evaluate("held_out.txt").accuracy <= 1
        True
        """
        with collecting() as happened:
            ids, _ = self.preprocessing.read_ids(names_of(paths), text_column, encoding)
        masking = Masking(self.preprocessing, self.model.context_length)
        result = evaluate_masked(self.model, ids, masking)
        refuse_nan(torch.tensor(result.loss))
        return replace(result, notes=tuple(happened.notes()))
