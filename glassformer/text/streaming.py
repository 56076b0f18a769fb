"""Text that arrives token by token.

    ids → TextStream → text → StopFilter → text for the reader

A token may end in the middle of a character, and a stop string may begin in the middle of a token.
Both classes hold back only what is not certain yet; `flush` returns the rest.
"""

import codecs
import re
from collections.abc import Sequence

from glassformer.errors import UsageError
from glassformer.text.tokenizers import Tokenizer

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # how Llama's vocabulary spells a single byte


class TextStream:
    """Ids in, text out: the joined output is `tokenizer.decode` of all ids.

    The cost of a push does not grow with the stream: byte-level tokens go through an incremental
    UTF-8 decoder, and in other vocabularies the text of a token depends only on the token before it
    (is there a space between them?).
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        """`before` are the ids that the text continues: they decide whether a space comes first."""
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._before = list(before)[-1:]  # the last id whose text was returned
        self._held: list[int] = []  # ids whose text was not

    def push(self, id: int) -> str:
        """The text that `id` completes; empty inside a character."""
        if self._tokenizer.is_byte_level:
            return self._utf8.decode(self._tokenizer.token_bytes(id))
        if self._tokenizer.hides(id):
            return ""
        self._held.append(id)
        # A run of byte tokens is text only if all of it is UTF-8, so it must end first.
        return "" if _BYTE.fullmatch(self._tokenizer.token(id)) else self._release()

    def flush(self) -> str:
        """The remaining text; an unfinished character becomes �."""
        if self._tokenizer.is_byte_level:
            return self._utf8.decode(b"", final=True)
        return self._release()

    def _release(self) -> str:
        before = self._tokenizer.decode(self._before)
        text = self._tokenizer.decode(self._before + self._held)
        self._before = (self._before + self._held)[-1:]
        self._held = []
        return text[len(before) :]


class StopFilter:
    """Passes text through up to the first stop string that is completed.

    Text that may begin a stop string is held back until that is certain. If two end together, the
    longer one counts. How the text is split into pushes makes no difference.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if "" in stops:
            raise UsageError(
                "a stop string is empty, which would stop every text at once. Leave it out."
            )
        self._stops = list(stops)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The text that certainly comes before any stop string."""
        if self.stopped:
            return ""
        text = self._held + text
        stops = [(text.index(stop) + len(stop), -len(stop)) for stop in self._stops if stop in text]
        if stops:
            end, length = min(stops)
            self.stopped, self._held = True, ""
            return text[: end + length]
        certain = len(text) - self._waiting(text)
        self._held = text[certain:]
        return text[:certain]

    def flush(self) -> str:
        """The text that was held back."""
        text, self._held = self._held, ""
        return text

    def _waiting(self, text: str) -> int:
        """Length of the longest end of `text` that is the beginning of a stop string."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
