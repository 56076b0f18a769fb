"""What decides whether a text becomes part of a corpus, and what is replaced in it.

    BuildSettings                     the settings of a build, with their defaults
    language_of(text)                 "en", 0.98
    judge(sets, language)             the first rule of Gopher or C4 that a text breaks
    scrubbed(text)                    without e-mail and IP addresses

The rules tell prose from the rest of the web; datatrove has them. Gopher's rules (Rae et al. 2021,
tables A1 and A2) look at repetition, then at words and lines. Of C4's rules (Raffel et al. 2020)
only those that judge a page are used: a text is kept or dropped as a whole, and no line of it is
removed. Each rule has a name under which it is counted.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from pydantic import Field, field_validator

from glassformer.config import Config, Count, StringTuple, parse
from glassformer.errors import UsageError

# --- words and sentences in any script, for datatrove's filters ---
#
# Its own tokenizers need models to download. Words are separated by spaces and punctuation. Scripts
# that write no spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) have no words that can be
# seen: there, each character counts as one.

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
        tokens = pattern.findall(text)
        return [token for token in tokens if self._with_marks or _HAS_LETTER.search(token)]

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


# --- quality: the rules of Gopher and C4 ---

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
        self._filters = [rule for name in sets if name in _SETS for rule in _SETS[name](language)]

    def rule_against(self, text: str) -> str | None:
        """The name of the first rule that a text breaks."""
        from datatrove.data import Document

        for rule in self._filters:
            result = rule.filter(Document(text=text, id=""))  # a copy, as filters may change it
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


# --- languages, by py3langid, whose model is part of its package ---

ANY = "any"
_SAMPLE = 2000  # characters by which a language is recognised


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_of(text: str) -> tuple[str, float]:
    """The likeliest language, as a code such as en, and its probability."""
    sample = text[:_SAMPLE] if len(text) <= 2 * _SAMPLE else text[_SAMPLE : 2 * _SAMPLE]
    language, probability = _identifier().classify(sample)
    return str(language), float(probability)


def known_languages() -> tuple[str, ...]:
    return tuple(sorted({str(code) for code in _identifier().nb_classes}))


def check_languages(codes: tuple[str, ...]) -> None:
    """Raise unless all codes are those of languages that are recognised."""
    for code in codes:
        if code not in (ANY, *known_languages()):
            names = ", ".join(known_languages())
            raise UsageError(f"unknown language {code!r}. Pass {ANY}, or one of {names}.")


# --- personal data, replaced by addresses that belong to nobody ---

# Reserved for documentation (RFC 2606, 5737 and 3849).
EMAIL, IP4, IP6 = "email@example.com", "192.0.2.1", "2001:db8::1"

# Bounded repetitions: a text of a million dots and dashes takes no longer than any other.
_EMAIL = re.compile(
    r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])", re.ASCII
)
_IP4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IP6 = re.compile(r"(?<![\w:.])[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])")


def scrubbed(text: str) -> str:
    text = _EMAIL.sub(EMAIL, text)
    text = _IP4.sub(lambda match: IP4 if _is_public(match[0]) else match[0], text)
    return _IP6.sub(lambda match: IP6 if _is_public(match[0]) else match[0], text)


def scrubbed_in(values: Any) -> Any:
    """Plain data in which all texts and titles are scrubbed."""
    if isinstance(values, list):
        return [scrubbed_in(value) for value in values]
    if not isinstance(values, dict):
        return values
    return {
        name: scrubbed(value) if name in ("text", "title") else scrubbed_in(value)
        for name, value in values.items()
    }


def _is_public(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:  # such as 999.1.1.1, or a time
        return False


# --- the settings of a build, which its manifest holds ---

NUM_BUCKETS, HASHES_PER_BUCKET, SHINGLE_WORDS = 20, 5, 5


class BuildSettings(Config):
    """What decides which pages become part of a corpus, and how it is written."""

    language: StringTuple = ("en",)
    """Languages to keep, as codes such as en; any: all."""
    language_threshold: float = Field(0.7, ge=0, le=1)
    """The lowest probability of the language of a text."""
    quality: StringTuple = SETS
    """Sets of rules that a text must follow; none: no rules."""
    similarity: float = Field(0.8, gt=0, le=1)
    """The Jaccard similarity of two texts from which the later one is dropped."""
    scrub_pii: bool = False
    """Whether e-mail addresses and public IP addresses are replaced."""
    max_page_bytes: Count = Field(10_000_000, ge=1000)
    """The largest page, in bytes after decompression."""
    page_seconds: Count = Field(20, ge=1)
    """Processor time after which the extraction of a page is given up."""
    shard_bytes: Count = Field(64_000_000, ge=1)
    """The size of the text from which on a new shard begins."""

    @field_validator("quality")
    @classmethod
    def _known_sets(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in names if name not in (*SETS, NONE)]:
            raise ValueError(f"there is no set of rules {unknown[0]!r}: {', '.join(SETS)}, {NONE}")
        if NONE in names and {*names} != {NONE}:
            raise ValueError(f"{NONE} cannot be combined with sets of rules")
        return tuple(name for name in dict.fromkeys(names) if name != NONE)

    @field_validator("language")
    @classmethod
    def _codes(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            raise ValueError(f"there must be at least one, or {ANY}")
        if ANY in names and {*names} != {ANY}:
            raise ValueError(f"{ANY} cannot be combined with other languages")
        return (ANY,) if ANY in names else tuple(sorted({name.lower() for name in names}))


def build_settings(options: dict[str, Any]) -> BuildSettings:
    """Settings from options of the command line; those that are None have their defaults."""
    values = {name: value for name, value in options.items() if value is not None}
    return parse(BuildSettings, values, error=UsageError)
