"""What stands around a text that is to be understood as a whole, and what to do if it is too long.

BERT    [CLS] a fine film [SEP]
GPT           a fine film <|endoftext|>     what it has read by then sums up the text
others        a fine film
"""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.text.tokenizers import Tokenizer

MASK, BEGIN, SEPARATE, PAD = "[MASK]", "[CLS]", "[SEP]", "[PAD]"
START = "<|startoftext|>"  # what a decoder reads before the first word of its answer
BERT_TOKENS = (PAD, BEGIN, SEPARATE, MASK)


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text. Where tokens carry the blank before a word, the first word gets one,
    too: so a word is the same wherever it stands."""
    if tokenizer.carries_blanks:
        texts = [text if text[:1].isspace() else f" {text}" for text in texts]
    return tokenizer.encode_batch(tokenizer.without_unknown(texts))


@dataclass(frozen=True)
class Frame:
    """Ids before and after those of the text, and the most that there may be in all."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    limit: int | None
    is_causal: bool = False
    """Does the model see only what came before?"""

    @classmethod
    def of(cls, tokenizer: Tokenizer, limit: int | None, is_causal: bool) -> "Frame":
        special, end = tokenizer.special_tokens, tokenizer.end_of_text
        if BEGIN in special and SEPARATE in special:
            return cls((special[BEGIN],), (special[SEPARATE],), limit, is_causal)
        return cls((), (end,) if is_causal and end is not None else (), limit, is_causal)

    @property
    def room(self) -> int | None:
        """For the text itself."""
        return self.limit and max(1, self.limit - len(self.before) - len(self.after))

    def is_too_long(self, ids: Sequence[int]) -> bool:
        return self.room is not None and len(ids) > self.room

    def put(self, ids: Sequence[int]) -> list[int]:
        """The text in its frame. Of one that is too long, the first quarter of what fits and the
        last three: what a text is about it often says first, what it thinks of it last."""
        if self.room is not None and len(ids) > self.room:
            first = self.room // 4
            ids = [*ids[:first], *ids[len(ids) - (self.room - first) :]]
        # Something must be read, even of a text without words.
        return [*self.before, *ids, *self.after] or [0]
