"""The language of a text, by py3langid, whose model is part of its package."""

from functools import cache
from typing import Any

from glassformer.errors import UsageError

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
    return tuple(sorted({str(each) for each in _identifier().nb_classes}))


def check_languages(codes: tuple[str, ...]) -> None:
    """Raise unless all codes are those of languages that are recognised."""
    for code in codes:
        if code not in (ANY, *known_languages()):
            names = ", ".join(known_languages())
            raise UsageError(f"unknown language {code!r}. Pass {ANY}, or one of {names}.")
