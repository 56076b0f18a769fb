"""The special tokens around a text that is read as a whole, and how a long text is shortened.

BERT    [CLS] a fine film [SEP]
GPT           a fine film <|endoftext|>     its last state sums up the text
others        a fine film

A tokenizer of another tool that has its own rule for these tokens (a post-processor) keeps it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.text.tokenizers import Tokenizer

MASK, BEGIN, SEPARATE, PAD = "[MASK]", "[CLS]", "[SEP]", "[PAD]"
START = "<|startoftext|>"  # read by a decoder before the first word of its answer
BERT_TOKENS = (PAD, BEGIN, SEPARATE, MASK)
MASKS = (MASK, "<mask>")  # the second is RoBERTa's


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text."""
    return tokenizer.encode_batch(readable(tokenizer, texts))


def readable(tokenizer: Tokenizer, texts: Sequence[str]) -> list[str]:
    """The texts as they are encoded. Where tokens include the space before a word, the first word
    gets one, too: so a word has the same tokens everywhere. A tokenizer of another tool reads texts
    as it did there."""
    if tokenizer.carries_blanks and tokenizer.own_frame is None:
        texts = [text if text[:1].isspace() else f" {text}" for text in texts]
    return tokenizer.without_unknown(texts)


@dataclass(frozen=True)
class Frame:
    """Ids before and after those of a text, and the limit for all of them together."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    limit: int | None
    is_causal: bool = False
    """The model sees only what came before."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, limit: int | None, is_causal: bool) -> "Frame":
        special, end = tokenizer.special_tokens, tokenizer.end_of_text
        before, after = tokenizer.own_frame or ((), ())
        if before or after:
            if is_causal and not after and end is not None:
                after = (end,)
            return cls(before, after, limit, is_causal)
        if BEGIN in special and SEPARATE in special:
            return cls((special[BEGIN],), (special[SEPARATE],), limit, is_causal)
        return cls((), (end,) if is_causal and end is not None else (), limit, is_causal)

    @property
    def room(self) -> int | None:
        """Number of tokens left for the text itself."""
        return self.limit and max(1, self.limit - len(self.before) - len(self.after))

    def is_too_long(self, ids: Sequence[int]) -> bool:
        return self.room is not None and len(ids) > self.room

    def put(self, ids: Sequence[int]) -> Sequence[int]:
        """The text in its frame. A text that is too long is reduced to its beginning, a quarter of
        the room, and its end: the topic often comes first, the verdict last."""
        if self.room is not None and len(ids) > self.room:
            first = self.room // 4
            ids = [*ids[:first], *ids[len(ids) - (self.room - first) :]]
        if len(ids) and not (self.before or self.after):
            return ids
        # A text without words still needs one token.
        return [*self.before, *ids, *self.after] or [0]

    def put_again(self, row: Sequence[int]) -> Sequence[int]:
        """A row that was framed for another limit, framed for this one."""
        return self.put(row[len(self.before) : len(row) - len(self.after)])
