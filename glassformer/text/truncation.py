"""Where a text that is longer than the context is cut, and the special tokens around it.

    BERT    [CLS] a fine film [SEP]
    GPT           a fine film <|endoftext|>     its last state sums up the text
    others        a fine film

A tokenizer of another tool that has its own rule for these tokens (a post-processor) keeps it.
Plain text to learn from is not cut off but read in windows: see `tasks/text_windows.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.text.tokenizers import BEGIN, SEPARATE, Tokenizer


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
