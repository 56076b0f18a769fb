"""Entities: the names and terms that the tags of a sentence mark.

    Angela Merkel visited Paris        entities
    B-PER  I-PER  O       B-LOC        (PER, 0, 1) (LOC, 3, 3)

The rules are those of conlleval, the script of the CoNLL shared tasks (Tjong Kim Sang and
De Meulder, 2003): B- begins an entity, and so does I- after O or after another type. In IOBES, E-
ends an entity, and S- is an entity of one word.
"""

from collections.abc import Iterable, Sequence

import numpy as np

DRAWS = 1000  # bootstrap samples of the sentences
PREFIXES = "BIES"
BEGINS, ENDS = "BS", "ES"

Entity = tuple[str, int, int]  # type, first, last
Tags = Sequence[str]


def entities(tags: Tags) -> set[Entity]:
    """The entities of one sentence."""
    found: set[Entity] = set()
    first, before = 0, ("", "")  # the prefix and the type of the word before
    for place, tag in enumerate([*tags, "O"]):
        now = _split(tag)
        continues = bool(now[0]) and now[1] == before[1]
        continues = continues and before[0] not in ENDS and now[0] not in BEGINS
        if not continues:
            if before[0]:
                found.add((before[1], first, place - 1))
            first = place
        before = now
    return found


def has_entities(tags: Iterable[str]) -> bool:
    """Whether any tag is part of an entity: B-PER is, NOUN is not."""
    return any(_split(tag)[0] for tag in tags)


def f1_interval(gold: Sequence[Tags], predicted: Sequence[Tags]) -> tuple[float, float]:
    """The 95% interval of F1 by the bootstrap: sentences are resampled with replacement, always in
    the same way. Wilson's interval does not apply, because F1 is not a share of independent
    answers. The entities of a sentence are resampled together, because they are correlated."""
    pairs = [(entities(a), entities(b)) for a, b in zip(gold, predicted, strict=True)]
    counts = np.array([(len(a & b), len(a) + len(b)) for a, b in pairs])  # (sentences, 2)
    draw = np.random.default_rng(0)
    found = []
    for _ in range(DRAWS):
        right, total = counts[draw.integers(len(counts), size=len(counts))].sum(0)
        found.append(2 * right / max(total, 1))
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)


def _split(tag: str) -> tuple[str, str]:
    """B-PER → (B, PER); a tag that marks no entity → ("", "")."""
    prefix, hyphen, kind = tag.partition("-")
    return (prefix, kind) if hyphen and len(prefix) == 1 and prefix in PREFIXES else ("", "")


def numbered_spans(sentences: Sequence[Tags], are_entities: bool) -> set[tuple[int, Entity]]:
    """The entities of all sentences, each with the number of its sentence; or all words."""
    spans = entities if are_entities else _words
    return {(number, span) for number, tags in enumerate(sentences) for span in spans(tags)}


def _words(tags: Tags) -> set[Entity]:
    return {(tag, place, place) for place, tag in enumerate(tags)}
