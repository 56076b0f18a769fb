"""Rules that tell prose from the rest of the web: those of Gopher and C4, as datatrove has them.

Gopher's rules (Rae et al. 2021, tables A1 and A2) look at repetition, then at words and lines. Of
C4's rules (Raffel et al. 2020) only those that judge a page are used: a text is kept or dropped as
a whole, and no line of it is removed. Each rule has a name under which it is counted.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from glassformer.corpus.words import COMPACT, UNPUNCTUATED, words

SETS = ("gopher", "c4")
NONE = "none"

# What datatrove calls a rule, and what it means.
RULES = {
    "gopher_short_doc": ("too_few_words", "fewer than 50 words"),
    "gopher_long_doc": ("too_many_words", "more than 100,000 words"),
    "gopher_below_avg_threshold": ("short_words", "words of fewer than 3 letters on average"),
    "gopher_above_avg_threshold": ("long_words", "words of more than 10 letters on average"),
    "gopher_too_many_hashes": ("hash_signs", "more than one # per 10 words"),
    "gopher_too_many_ellipsis": ("ellipses", "more than one … per 10 words"),
    "gopher_too_many_bullets": ("bullet_lines", "more than 90 % of lines are list items"),
    "gopher_too_many_end_ellipsis": ("ellipsis_lines", "more than 30 % of lines end in …"),
    "gopher_below_alpha_threshold": ("few_letters", "fewer than 80 % of words contain a letter"),
    "gopher_enough_stop_words": ("few_stop_words", "fewer than 2 different English stop words"),
    "dup_para_frac": ("repeated_paragraphs", "more than 30 % of paragraphs are repeated"),
    "dup_para_char_frac": ("repeated_paragraph_text", "more than 20 % is repeated paragraphs"),
    "dup_line_frac": ("repeated_lines", "more than 30 % of lines are repeated"),
    "dup_line_char_frac": ("repeated_line_text", "more than 20 % is repeated lines"),
    "top_n_gram": ("frequent_phrase", "one phrase makes up more than 16 to 20 % of the text"),
    "duplicated_n_grams": ("repeated_phrases", "repeated phrases make up more than 10 to 15 %"),
    "lorem_ipsum": ("lorem_ipsum", "contains “lorem ipsum”"),
    "curly_bracket": ("curly_bracket", "contains a curly bracket, like code"),
    "too_few_sentences": ("too_few_sentences", "fewer than 5 sentences"),
    "empty": ("empty", "no text"),
}
_TOP = ((2, 0.2), (3, 0.18), (4, 0.16))
_REPEATED = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))


class Judge:
    """The rules for one language."""

    def __init__(self, sets: Sequence[str], language: str) -> None:
        self._filters = [each for name in sets for each in _SETS.get(name, _none)(language)]

    def rule_against(self, text: str) -> str | None:
        """The name of the first rule that a text breaks."""
        from datatrove.data import Document

        for each in self._filters:
            result = each.filter(Document(text=text, id=""))  # a copy, as filters may change it
            if isinstance(result, tuple) and not result[0]:
                return _name(result[1])
        return None


@cache
def judge(sets: tuple[str, ...], language: str) -> Judge:
    return Judge(sets, language)


def _name(reason: str) -> str:
    if reason.startswith("top_"):
        reason = "top_n_gram"
    elif reason.startswith("duplicated_"):
        reason = "duplicated_n_grams"
    return RULES[reason][0] if reason in RULES else reason


def _none(language: str) -> list[Any]:
    return []


def _gopher(language: str) -> list[Any]:
    from datatrove.pipeline.filters.gopher_quality_filter import GopherQualityFilter
    from datatrove.pipeline.filters.gopher_repetition_filter import GopherRepetitionFilter

    is_compact = language in COMPACT
    # Where a character counts as a word, a phrase has twice as many.
    times = 2 if is_compact else 1
    repetition = GopherRepetitionFilter(
        top_n_grams=tuple((times * n, share) for n, share in _TOP),
        dup_n_grams=tuple((times * n, share) for n, share in _REPEATED),
        language=words(),
    )
    quality = GopherQualityFilter(
        min_avg_word_length=None if is_compact else 3,
        max_avg_word_length=None if is_compact else 10,
        min_stop_words=2 if language == "en" else None,
        language=words(with_marks=False),  # what has no letter, such as a comma, is not a word
    )
    return [quality, repetition]


def _c4(language: str) -> list[Any]:
    from datatrove.pipeline.filters.c4_filters import C4QualityFilter

    return [
        C4QualityFilter(
            remove_citations=False,
            filter_no_terminal_punct=False,
            min_num_sentences=-1 if language in UNPUNCTUATED else 5,
            min_words_per_line=-1,
            max_word_length=-1,
            filter_javascript=False,
            filter_policy=False,
            language=words(),
        )
    ]


_SETS: dict[str, Callable[[str], list[Any]]] = {"gopher": _gopher, "c4": _c4}
