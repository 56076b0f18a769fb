"""A masked language model in use: it predicts the tokens behind [MASK], and makes a text a vector.

    the [MASK] fox   →  ids  →  p(token | both sides) at each mask   →  Guess
    the quick fox    →  ids  →  the vectors of its tokens, pooled    →  (D,)

`fill` does the first, `embed` the second.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import overload

import numpy as np
import torch

from glassformer.data.batches import sorted_batches
from glassformer.data.rows import Array
from glassformer.data.text_files import collecting
from glassformer.errors import GlassformerError, UsageError
from glassformer.inspect.inspection import LikelyToken, Subject
from glassformer.models.bert import Bert
from glassformer.nn.layers import refuse_nan
from glassformer.preprocessing import begins_word
from glassformer.preprocessing.masking import MaskedTextPreprocessing, Masking
from glassformer.tasks.inspecting import InspectsText
from glassformer.tasks.masked.scores import MaskedResult, evaluate_masked
from glassformer.tasks.neighbours import NeighbourFinder
from glassformer.tasks.subjects import of_masked, of_vector
from glassformer.tasks.task import Texts, as_list
from glassformer.text.tokenizers import MASKS
from glassformer.text.truncation import Frame

READ_AT_ONCE = 2**12  # tokens of texts that become vectors


@dataclass(frozen=True)
class Guess(LikelyToken):
    """A possible token for a mask, and the text with it."""

    text: str


class MaskedPredictor(InspectsText, NeighbourFinder):
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
        return [self._fill(one, top) for one in text]

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
        ids = self._encode(parts)
        if frame.is_too_long(ids):
            raise GlassformerError(
                f"the text has {len(ids):,} tokens, but the model reads at most {frame.room:,}. "
                "Use a shorter text."
            )
        shown = torch.tensor([frame.put(ids)], device=self.model.device)
        hidden = self.model.hidden(shown)[0][shown[0] == mask]  # (masks, D)
        logits = refuse_nan(self.model.predict(hidden).float())
        guesses = []
        for mask_number, scores in enumerate(logits.softmax(-1).cpu()):
            order = scores.argsort(descending=True, stable=True)
            if self._is_whole_word(parts, mask_number):
                order = order[self._begins_word[order]]
            guesses.append(
                [self._guess(parts, mask_number, int(id), float(scores[id])) for id in order[:top]]
            )
        return guesses

    def _encode(self, parts: Sequence[str]) -> list[int]:
        """The tokens of a text whose parts stand between masks."""
        ids: list[int] = []
        for part in parts[:-1]:
            before = part.rstrip() if self.preprocessing.mask_takes_blanks else part
            ids += [*self.tokenizer.encode(before), self.preprocessing.mask]
        return ids + self.tokenizer.encode(parts[-1])

    @torch.inference_mode()
    def embed(self, text: str | Sequence[str]) -> Array:
        """The vector of a text, (D,). A list gives one row for each text, (N, D). Of a text that is
        too long, the beginning is read.

        >>> model.embed("the quick brown fox").shape
        (16,)
        >>> near, far = model.embed(["the quick fox", "a lazy dog"])
        """
        texts = [text] if isinstance(text, str) else list(text)
        frame = self._embedding_frame
        encoded = self.preprocessing.encode(texts)
        rows = [[*frame.before, *ids[: frame.room], *frame.after] or [0] for ids in encoded]
        vectors = np.zeros((len(rows), self.model.config.d_model), np.float32)
        for batch in sorted_batches(np.array([len(row) for row in rows]), READ_AT_ONCE):
            longest = max(len(rows[number]) for number in batch)
            ids = torch.zeros(len(batch), longest, dtype=torch.long)
            is_text = torch.zeros(len(batch), longest, dtype=torch.bool)
            for row, number in enumerate(batch):
                length = len(rows[number])
                ids[row, :length] = torch.tensor(rows[number])
                is_text[row, :length] = True
            device = self.model.device
            vectors[batch] = self.model.embed(ids.to(device), is_text.to(device)).cpu().numpy()
        if not np.isfinite(vectors).all():
            raise GlassformerError("the model computes NaN or infinity: its weights are damaged.")
        return vectors[0] if isinstance(text, str) else vectors

    @property
    def embedding_length(self) -> int:
        """The most tokens of a text that `embed` reads, with those that frame it."""
        limit, context = self.model.config.sentence_length, self.model.context_length
        return context if limit is None else min(limit, context)

    def is_too_long(self, text: str) -> bool:
        """Whether `embed` reads only the beginning of a text.

        >>> model.is_too_long("the quick brown fox")
        False
        """
        return self._embedding_frame.is_too_long(self.preprocessing.encode([text])[0])

    @property
    def _embedding_frame(self) -> Frame:
        return self.preprocessing.frame(self.embedding_length)

    def _subject(self, text: str) -> Subject:
        if not self.model.config.has_head:
            return of_vector(self.model, self.preprocessing, text, self.embedding_length)
        return of_masked(self.model, self.preprocessing, text, self._encode(self.parts(text)))

    def _frame(self, ids: list[int]) -> tuple[list[int], int]:
        frame = self.preprocessing.frame(None)
        return list(frame.put(ids)), len(frame.before)

    def _is_whole_word(self, parts: list[str], number: int) -> bool:
        """Whether only a token that begins a word can be missing: no letter and no other mask
        touches this one."""
        before, after = parts[number], parts[number + 1]
        touches_mask = (not before and number > 0) or (not after and number + 2 < len(parts))
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

    def _guess(self, parts: list[str], number: int, id: int, probability: float) -> Guess:
        token = self.tokenizer.token(id)
        mask = self.preprocessing.mask_name
        before, after = mask.join(parts[: number + 1]), mask.join(parts[number + 1 :])
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
            ids, _ = self.preprocessing.read_ids(as_list(paths), text_column, encoding)
        masking = Masking(self.preprocessing, self.model.context_length)
        result = evaluate_masked(self.model, ids, masking)
        refuse_nan(torch.tensor(result.loss))
        return replace(result, notes=tuple(happened.notes()))
