"""A masked language model with its tokenizer: it guesses what stands behind [MASK]."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from glassformer.data.corpus import read_documents
from glassformer.data.tokens import ids_of
from glassformer.errors import GlassformerError, UsageError
from glassformer.generation.logits import checked
from glassformer.models.bert import Bert
from glassformer.text.framing import MASK, Frame
from glassformer.text.tokenizers import Tokenizer
from glassformer.training.tasks.masked import MaskedFound, Masking, evaluate_masked

SHARE = 0.15  # of the tokens that are hidden to evaluate


@dataclass(frozen=True)
class Guess:
    """A token that may stand behind the mask, and the text with it."""

    token: str
    probability: float
    text: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class MaskedPredictor:
    """The verbs of a masked language model: fill and evaluate."""

    def __init__(self, model: Bert, tokenizer: Tokenizer) -> None:
        if MASK not in tokenizer.special_tokens:
            raise GlassformerError(f"the tokenizer of this model has no token {MASK}.")
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.mask = tokenizer.special_tokens[MASK]
        self.frame = Frame.of(tokenizer, model.context_length, is_causal=False)

    @torch.inference_mode()
    def fill(self, text: str, top: int = 5) -> list[list[Guess]]:
        """The `top` likeliest tokens for each [MASK] in the text; where it stands alone, of those
        that begin a word."""
        parts = text.split(MASK)
        if len(parts) < 2:
            raise UsageError(f'there is no {MASK} in "{text}". Write it where a word is missing.')
        # Where tokens carry the blank before a word, the missing word would have it.
        carries = self.tokenizer.carries_blanks
        spelled = [
            part.rstrip() if carries and place < len(parts) - 1 else part
            for place, part in enumerate(parts)
        ]
        ids: list[int] = []
        for place, part in enumerate(spelled):
            ids += ([self.mask] if place else []) + self.tokenizer.encode(part)
        if self.frame.is_too_long(ids):
            raise GlassformerError(
                f"the text has {len(ids):,} tokens, and the model sees {self.frame.room:,} at once."
            )
        shown = torch.tensor([self.frame.put(ids)], device=self.model.device)
        hidden = self.model.hidden(shown)[0][shown[0] == self.mask]  # (masks, D)
        logits = checked(self.model.predict(hidden).float())
        return [
            [
                self._guess(parts, place, int(id), float(scores[id]))
                for id in self._ranked(scores, self._is_whole_word(parts, place))[:top]
            ]
            for place, scores in enumerate(logits.softmax(-1).cpu())
        ]

    def _is_whole_word(self, parts: list[str], place: int) -> bool:
        """Whether what is missing can only be a token that begins a word."""
        # Of tokens that carry blanks, the first of a word has none behind a bracket.
        has_blank = parts[place][-1:] in ("", " ", "\n", "\t")
        return _stands_alone(parts, place) and (has_blank or not self.tokenizer.carries_blanks)

    def _ranked(self, scores: torch.Tensor, is_alone: bool) -> torch.Tensor:
        """The ids that may stand there, the likeliest first."""
        order = scores.argsort(descending=True, stable=True)
        return order[self._begins_word[order]] if is_alone else order

    @cached_property
    def _begins_word(self) -> torch.Tensor:
        tokens = [self.tokenizer.token(id) for id in range(self.model.head.weight.size(0))]
        if self.tokenizer.kind == "wordpiece":
            return torch.tensor([not token.startswith("##") for token in tokens])
        if self.tokenizer.carries_blanks:  # and so does the beginning of a word
            return torch.tensor([token[:1] == " " and bool(token.strip()) for token in tokens])
        return torch.ones(len(tokens), dtype=torch.bool)

    def _guess(self, parts: list[str], place: int, id: int, probability: float) -> Guess:
        token = self.tokenizer.token(id)
        before, after = MASK.join(parts[: place + 1]), MASK.join(parts[place + 1 :])
        word = token.removeprefix("##")
        joined = before.rstrip() if token.startswith(("##", " ")) else before
        text = f"{joined}{word}{after}"
        return Guess(token, probability, text if joined else text.lstrip(" "))

    def evaluate(
        self, paths: str | Sequence[str], text_column: Sequence[str] = (), encoding: str = "utf-8"
    ) -> MaskedFound:
        """How many of the hidden tokens of a text it guesses; the same are hidden each time."""
        names = [paths] if isinstance(paths, str) else list(paths)
        pieces = ids_of(read_documents(names, text_column, encoding), self.tokenizer)
        ids = np.concatenate([np.array(piece, dtype=np.uint32) for piece in pieces])
        if len(ids) < 2:
            raise GlassformerError("there are fewer than two tokens of text to evaluate on.")
        masking = Masking(self.tokenizer, SHARE, whole_words=False)
        found = evaluate_masked(self.model, ids, masking, self.frame)
        checked(torch.tensor(found.loss))
        return found


def _stands_alone(parts: list[str], place: int) -> bool:
    """Whether no letter and no other mask touches this one: then a whole word is missing."""
    before, after = parts[place], parts[place + 1]
    touches_mask = (not before and place > 0) or (not after and place + 2 < len(parts))
    return not (touches_mask or before[-1:].isalnum() or after[:1].isalnum())
