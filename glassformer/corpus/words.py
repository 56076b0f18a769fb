"""The words and sentences of a text in any script, without models to download.

Words are separated by spaces and punctuation. Scripts that write no spaces (Chinese, Japanese,
Thai, Lao, Khmer, Burmese) have no words that can be seen: there, each character counts as one.
"""

import re
from functools import cache
from typing import Any

# Words of scripts with spaces and without separate accents, where Python's own patterns suffice.
_PLAIN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]+")
_NOT_PLAIN = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0590-\u10ff\u1100-\u1dff\u20d0-\u20ff\u2c80-\U0010ffff]"
)
_HAS_LETTER = re.compile(r"[^\W_]")  # or a digit
_ALONE = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
# Languages whose words are short, or not separated.
COMPACT = frozenset(("zh", "ja", "ko", "th", "lo", "km", "my", "bo", "dz"))
UNPUNCTUATED = frozenset(("th", "lo", "km", "my", "bo", "dz"))


class Words:
    """A word tokenizer as datatrove's filters expect it. Punctuation counts as words of its own, or
    not at all."""

    def __init__(self, with_marks: bool) -> None:
        self._with_marks = with_marks

    def word_tokenize(self, text: str) -> list[str]:
        pattern = _word() if _NOT_PLAIN.search(text) else _PLAIN
        found = pattern.findall(text)
        return [each for each in found if self._with_marks or _HAS_LETTER.search(each)]

    def sent_tokenize(self, text: str) -> list[str]:
        return [text[start:end] for start, end in self.span_tokenize(text)]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        ends = [match.end() for match in _sentence_end().finditer(text)]
        if not ends or ends[-1] < len(text):
            ends.append(len(text))
        starts = [0, *ends[:-1]]
        return [(a, b) for a, b in zip(starts, ends, strict=True) if text[a:b].strip()]


@cache
def words(with_marks: bool = True) -> Words:
    """The same object in every call: datatrove caches by its identity."""
    from datatrove.utils.word_tokenizers import WordTokenizer

    WordTokenizer.register(Words)
    return Words(with_marks)


@cache
def _word() -> Any:
    import regex

    return regex.compile(
        rf"[{_ALONE}]\p{{M}}*|(?:(?![{_ALONE}])[\p{{L}}\p{{M}}\p{{N}}_])+(?:['’-](?:(?![{_ALONE}])"
        r"[\p{L}\p{M}\p{N}_])+)*|[^\s\p{L}\p{M}\p{N}_]+"
    )


@cache
def _sentence_end() -> Any:
    """A mark before a space or the end; East Asian marks need no space; a line break."""
    import regex

    return regex.compile(r"[.!?…؟۔։।॥။።]+[\"'”’)\]]*(?=\s|$)|[。！？｡]+[”’」』）]*|\n+")
