"""The settings of a build. They are written into the manifest of the corpus."""

from typing import Any

from pydantic import Field, field_validator

from glassformer.config import Config, Count, Names, parse
from glassformer.corpus.languages import ANY
from glassformer.corpus.quality import NONE, SETS
from glassformer.errors import UsageError

NUM_BUCKETS, HASHES_PER_BUCKET, SHINGLE_WORDS = 20, 5, 5


class BuildSettings(Config):
    """What decides which pages become part of a corpus, and how it is written."""

    language: Names = ("en",)
    """Languages to keep, as codes such as en; any: all."""
    language_threshold: float = Field(0.7, ge=0, le=1)
    """The lowest probability of the language of a text."""
    quality: Names = SETS
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


def build_settings(chosen: dict[str, Any]) -> BuildSettings:
    """Settings from options of the command line; those that are None have their defaults."""
    given = {name: value for name, value in chosen.items() if value is not None}
    return parse(BuildSettings, given, error=UsageError)
