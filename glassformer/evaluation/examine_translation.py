"""What to see of a translator: its best and worst translations, and their lengths."""

from collections.abc import Sequence

import numpy as np

from glassformer.evaluation.chapter import Answer, Chapter, Examination, of_rows, trend
from glassformer.evaluation.mistakes import PoorTranslation

MOST_SENTENCES, LEAST_SENTENCES = 200, 20
WORST, BEST = 12, 6
COLUMNS = ["chrF", "source", "reference", "translation"]
KINDS = ["number", "text", "text", "text"]
RATIOS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0)


def examine_translations(found: Sequence[PoorTranslation], num_held_out: int) -> Examination:
    """Of these translations of held-out sentences."""
    note = of_rows(len(found), num_held_out, "sentence") + " Greedy translations."
    ranked = sorted(found, key=lambda each: each.chrf)
    worst, best = ranked[:WORST], ranked[::-1][:BEST]
    if len(ranked) < WORST + BEST:  # no sentence is among both
        middle = (len(ranked) + 1) // 2
        worst, best = ranked[:middle], ranked[middle:][::-1]
    lengths = [len(each.source.split()) for each in found]
    if max(lengths) == 1:  # languages without spaces
        lengths = [len(each.source) for each in found]
    scores = [each.chrf for each in found]
    how = f"{note} chrF of each sentence by sacreBLEU; each point is a tenth of them, with its 95% "
    chapters = [
        *_table("Worst translations", worst, f"{note} Sorted by chrF, the lowest first."),
        *_table("Best translations", best, "The same, the highest chrF first."),
        *trend(
            "chrF by length of the source",
            lengths,
            scores,
            ("length of the source", "mean chrF"),
            f"{how}interval.",
            "sentence",
            most=100,
        ),
        *_ratios(found, note),
    ]
    answers = [
        Answer(each.source, each.reference, each.translation, each.chrf / 100) for each in found
    ]
    return Examination(tuple(chapters), "mean sentence chrF / 100", tuple(answers))


def _table(title: str, rows: Sequence[PoorTranslation], note: str) -> list[Chapter]:
    cells = [[each.chrf, each.source, each.reference, each.translation] for each in rows]
    data = {"columns": COLUMNS, "kinds": KINDS, "rows": cells}
    return [Chapter(title, "table", data, note)] if cells else []


def _ratios(found: Sequence[PoorTranslation], note: str) -> list[Chapter]:
    """How many translations are shorter or longer than their reference, in characters."""
    ratios = [len(each.translation) / len(each.reference) for each in found if each.reference]
    if not ratios:
        return []
    numbers = np.searchsorted(RATIOS, ratios, side="right") - 1
    bins = [
        {"from": low, "to": high, "count": int((numbers == number).sum())}
        for number, (low, high) in enumerate(zip(RATIOS, [*RATIOS[1:], None], strict=True))
    ]
    data = {"x": "length of the translation / length of the reference", "bins": bins}
    how = f"In characters; 1 is as long as the reference, less is shorter. {note}"
    return [Chapter("Length ratio", "histogram", data, how)]
