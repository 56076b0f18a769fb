"""Entities: the names and terms that the tags of a sentence mark, and the schemes of such tags.

            Angela  Merkel  visited  Paris        entities: (PER, 0, 1) (LOC, 3, 3)
    IOB1    I-PER   I-PER   O        I-LOC        B- only directly after the same type
    IOB2    B-PER   I-PER   O        B-LOC
    BIOES   B-PER   E-PER   O        S-LOC        (IOBES)
    BILOU   B-PER   L-PER   O        U-LOC
    BMES    B-PER   E-PER   O        S-LOC        inside: M-

Without types, the letters stand alone; the type of such entities is "_".

IOB1, IOB2 and BIOES are read as by conlleval, the script of the CoNLL shared tasks (Tjong Kim Sang
and De Meulder, 2003), which is the default of seqeval: I- and E- after O or after another type
begin an entity. BILOU and BMES, which conlleval does not know, are read as in seqeval's strict
mode: only a complete entity counts, from B- to L- (E-), or U- (S-) alone.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from glassformer.errors import GlassformerError

SchemeName = Literal["IOB1", "IOB2", "BIOES", "BILOU", "BMES"]
OUTSIDE = "O"
UNTYPED = "_"  # as in seqeval
BEGINS, ENDS = "BS", "ES"

# The letters of each scheme, and the letter of BIOES that means the same.
_LETTERS: dict[SchemeName, dict[str, str]] = {
    "IOB1": {"B": "B", "I": "I"},
    "IOB2": {"B": "B", "I": "I"},
    "BIOES": {"B": "B", "I": "I", "E": "E", "S": "S"},
    "BILOU": {"B": "B", "I": "I", "L": "E", "U": "S"},
    "BMES": {"B": "B", "M": "I", "E": "E", "S": "S"},
}
_KNOWN = set().union(*_LETTERS.values())
_TYPED = re.compile(r"([A-Z])-(.+)")

Entity = tuple[str, int, int]  # type, first, last
Tags = Sequence[str]


@dataclass(frozen=True)
class Scheme:
    """How tags mark entities."""

    name: SchemeName
    is_typed: bool

    def entities(self, tags: Tags) -> set[Entity]:
        """The entities of one sentence."""
        entities: set[Entity] = set()
        first, opening, before = 0, "", ("", "")  # the letter and the type of the word before
        for position, now in enumerate([*map(self._split, tags), ("", "")]):
            continues = bool(now[0]) and now[1] == before[1]
            continues = continues and before[0] not in ENDS and now[0] not in BEGINS
            if not continues:
                is_complete = opening in BEGINS and before[0] in ENDS
                if before[0] and (is_complete or not self._is_strict):
                    entities.add((before[1], first, position - 1))
                first, opening = position, now[0]
            before = now
        return entities

    def covers(self, tags: Collection[str]) -> bool:
        """Whether all of the tags that mark entities can be of this scheme."""
        letters, meanings = _letters(tags, self.is_typed), _LETTERS[self.name]
        if not letters:  # no entities, unless they are marked in the other way
            return not _letters(tags, not self.is_typed)
        # B and I alone are of IOB2, though BILOU has these letters: there, an entity needs an end.
        has_ends = any(meanings.get(letter, "-") in ENDS for letter in letters)
        return letters <= meanings.keys() and (has_ends or not self._is_strict)

    @property
    def _is_strict(self) -> bool:
        return self.name in ("BILOU", "BMES")

    def _split(self, tag: str) -> tuple[str, str]:
        """L-PER → (E, PER); a tag that marks no entity → ("", "")."""
        letter, kind = tag, UNTYPED
        if self.is_typed:
            parts = _TYPED.fullmatch(tag)
            letter, kind = (parts[1], parts[2]) if parts else ("", "")
        letter = _LETTERS[self.name].get(letter, "")
        return (letter, kind) if letter else ("", "")


def find_scheme(
    tags: Collection[str], sentences: Sequence[Tags] = (), scheme_name: SchemeName | None = None
) -> Scheme | None:
    """The scheme of a set of tags; None if they mark no entities, like parts of speech. Sentences
    with these tags tell IOB1 from IOB2. Raises if the tags mix the letters of several schemes.

    `scheme_name` is that of the training data, if there is one: data for evaluation may lack the
    letters that identify its scheme."""
    is_typed = bool(_letters(tags, is_typed=True))
    if scheme_name is not None:
        return Scheme(scheme_name, is_typed)
    letters = _letters(tags, is_typed)
    if not _look_like_entities(tags, letters, is_typed):
        return None
    if is_typed and (bare := {"B", "I"} & {*tags}):
        typed = min(tag for tag in tags if _TYPED.fullmatch(tag))
        raise GlassformerError(
            f"the tags mix entities with a type ({typed}) and without ({min(bare)}). Give all of "
            "them a type, or none."
        )
    fitting = [name for name in get_args(SchemeName) if letters <= _LETTERS[name].keys()]
    if not fitting:
        mixed = ", ".join(sorted(f"{letter}-" if is_typed else letter for letter in letters))
        raise GlassformerError(
            f"the tags mix {mixed}, which do not belong to a single tagging scheme "
            "(IOB1 and IOB2: B, I; BIOES: B, I, E, S; BILOU: B, I, L, U; BMES: B, M, E, S; and O). "
            "Rewrite the tags in one of them."
        )
    if "IOB2" not in fitting:
        return Scheme(fitting[0], is_typed)
    scheme = Scheme("IOB2", is_typed)
    begun_by = _beginnings(scheme, sentences)
    is_iob1 = begun_by["I"] > begun_by["B"] or "B" not in letters
    return Scheme("IOB1", is_typed) if is_iob1 else scheme


def _look_like_entities(tags: Collection[str], letters: set[str], is_typed: bool) -> bool:
    if not is_typed:
        # S, O and V may be subject, object and verb: without types, every tag must fit.
        is_all = letters | {OUTSIDE} >= {*tags} and letters <= _KNOWN
        return is_all and ("B" in letters or letters == {"I"})
    # Morphological tags (N-SG, I-PL) have other letters, and nothing is outside.
    return bool(letters & set("BISU")) and (letters <= _KNOWN or OUTSIDE in tags)


def _letters(tags: Collection[str], is_typed: bool) -> set[str]:
    """The letters before a hyphen and a type; without types, the tags that are one letter."""
    if is_typed:
        return {match[1] for tag in tags if (match := _TYPED.fullmatch(tag))}
    return {tag for tag in tags if len(tag) == 1 and tag.isupper() and tag != OUTSIDE}


def _beginnings(scheme: Scheme, sentences: Sequence[Tags]) -> Counter[str]:
    """How many entities that follow no other of their type begin with I (IOB1) and B (IOB2)."""
    counts: Counter[str] = Counter()
    for tags in sentences:
        before = ""
        for letter, kind in map(scheme._split, tags):
            if letter and kind != before:
                counts[letter] += 1
            before = kind
    return counts
