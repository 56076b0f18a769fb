"""A masked language model in use: it predicts the tokens behind [MASK]."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from glassformer.errors import GlassformerError, UsageError
from glassformer.evaluation.masked import MaskedResult, evaluate_masked
from glassformer.generation.logits import refuse_nan
from glassformer.models.bert import Bert
from glassformer.predict.predictor import LikelyToken, Predictor, names_of
from glassformer.preprocessing.masking import Masking
from glassformer.preprocessing.text import MaskedTextPreprocessing
from glassformer.text.framing import MASK
from glassformer.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class Guess(LikelyToken):
    """A possible token for a mask, and the text with it."""

    text: str


class MaskedPredictor(Predictor):
    """The verbs of a masked language model: fill and evaluate."""

    verbs = ("fill", "evaluate")
    preprocessing_class = MaskedTextPreprocessing
    model: Bert
    preprocessing: MaskedTextPreprocessing

    @property
    def tokenizer(self) -> Tokenizer:
        return self.preprocessing.tokenizer

    @torch.inference_mode()
    def fill(self, text: str, top: int = 5) -> list[list[Guess]]:
        """The `top` likeliest tokens for each [MASK] in the text. A mask that stands alone can only
        be a token that begins a word."""
        parts = text.split(MASK)
        if len(parts) < 2:
            raise UsageError(f'there is no {MASK} in "{text}". Write it where a word is missing.')
        mask, frame = self.preprocessing.mask, self.preprocessing.frame(self.model.context_length)
        ids: list[int] = []
        for part in parts[:-1]:
            # Where tokens include the blank before a word, the missing token includes it, too.
            before = part.rstrip() if self.tokenizer.carries_blanks else part
            ids += [*self.tokenizer.encode(before), mask]
        ids += self.tokenizer.encode(parts[-1])
        if frame.is_too_long(ids):
            raise GlassformerError(
                f"the text has {len(ids):,} tokens, and the model sees {frame.room:,} at once."
            )
        shown = torch.tensor([frame.put(ids)], device=self.model.device)
        hidden = self.model.hidden(shown)[0][shown[0] == mask]  # (masks, D)
        logits = refuse_nan(self.model.predict(hidden).float())
        found = []
        for place, scores in enumerate(logits.softmax(-1).cpu()):
            order = scores.argsort(descending=True, stable=True)
            if self._is_whole_word(parts, place):
                order = order[self._begins_word[order]]
            best = [(int(id), float(scores[id])) for id in order[:top]]
            found.append([self._guess(parts, place, *each) for each in best])
        return found

    def _is_whole_word(self, parts: list[str], place: int) -> bool:
        """Whether only a token that begins a word can be missing."""
        # Where tokens include blanks, the first token of a word has none after a bracket.
        has_blank = parts[place][-1:] in ("", " ", "\n", "\t")
        return _stands_alone(parts, place) and (has_blank or not self.tokenizer.carries_blanks)

    @cached_property
    def _begins_word(self) -> torch.Tensor:
        tokens = [self.tokenizer.token(id) for id in range(self.model.head.weight.size(0))]
        if self.tokenizer.kind == "wordpiece":
            return torch.tensor([not token.startswith("##") for token in tokens])
        if self.tokenizer.carries_blanks:
            return torch.tensor([token[:1] == " " and bool(token.strip()) for token in tokens])
        return torch.ones(len(tokens), dtype=torch.bool)

    def _guess(self, parts: list[str], place: int, id: int, probability: float) -> Guess:
        token = self.tokenizer.token(id)
        before, after = MASK.join(parts[: place + 1]), MASK.join(parts[place + 1 :])
        if token.startswith(("##", " ")):
            before = before.rstrip()
        text = f"{before}{token.removeprefix('##')}{after}"
        return Guess(token, probability, text if before else text.lstrip(" "))

    def evaluate(
        self, paths: str | Sequence[str], text_column: Sequence[str] = (), encoding: str = "utf-8"
    ) -> MaskedResult:
        """How many hidden tokens of a text it predicts. As many are hidden as in its training, and
        the same ones each time."""
        ids, _ = self.preprocessing.read_ids(names_of(paths), text_column, encoding)
        masking = Masking(self.preprocessing, self.model.context_length)
        found = evaluate_masked(self.model, ids, masking)
        refuse_nan(torch.tensor(found.loss))
        return found


def _stands_alone(parts: list[str], place: int) -> bool:
    """Whether no letter and no other mask touches this one, so that a whole word is missing."""
    before, after = parts[place], parts[place + 1]
    touches_mask = (not before and place > 0) or (not after and place + 2 < len(parts))
    return not (touches_mask or before[-1:].isalnum() or after[:1].isalnum())
