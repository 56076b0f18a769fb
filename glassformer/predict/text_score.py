"""How likely a text is.

    p(t1 … tN) = p(t1) · Π p(tn | t<n)        n = 2 … N

p(t1) exists only given the end-of-text token that stands between documents in training. It is
reported on its own, outside the total and the perplexity. Bits per byte are those of `evaluate` on
a file with this text: of a whole document, from its first token to the end-of-text token after it.
In a vocabulary without such a token, they begin after t1.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from glassformer.errors import GlassformerError
from glassformer.evaluation.language import LanguageResult, evaluate_language
from glassformer.generation.logits import refuse_nan
from glassformer.models.language_model import LanguageModel
from glassformer.text.byte_count import count_bytes, notes_on_bytes
from glassformer.text.tokenizers import Tokenizer


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
