"""What to see of a captioner: its best and worst captions of held-out images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.evaluation.chapter import Answer, Chapter, Examination, of_rows

MOST_IMAGES, LEAST_IMAGES = 200, 20
WORST, BEST = 12, 6
COLUMNS = ["CIDEr-D", "image", "references", "caption", "file"]
KINDS = ["number", "image", "text", "text", "text"]
TOP = 10  # of CIDEr-D


@dataclass(frozen=True)
class Described:
    """A held-out image, what people wrote about it, and the model's caption."""

    image: str
    """What the image is called."""
    thumbnail: Callable[[], str]
    """Its data URI, of those that are shown."""
    references: tuple[str, ...]
    caption: str
    cider_d: float


def examine_captions(found: Sequence[Described], num_held_out: int) -> Examination:
    """Of these captions of held-out images."""
    note = of_rows(len(found), num_held_out, "image") + " Greedy captions."
    ranked = sorted(found, key=lambda each: each.cider_d)
    worst, best = ranked[:WORST], ranked[::-1][:BEST]
    if len(ranked) < WORST + BEST:  # no image is among both
        middle = (len(ranked) + 1) // 2
        worst, best = ranked[:middle], ranked[middle:][::-1]
    chapters = [
        *_table("Worst captions", worst, f"{note} Sorted by CIDEr-D, the lowest first."),
        *_table("Best captions", best, "The same, the highest CIDEr-D first."),
    ]
    answers = [
        Answer(each.image, each.references[0], each.caption, each.cider_d / TOP) for each in found
    ]
    return Examination(tuple(chapters), "mean CIDEr-D / 10", tuple(answers))


def _table(title: str, rows: Sequence[Described], note: str) -> list[Chapter]:
    cells = [
        [
            each.cider_d,
            each.thumbnail(),
            " | ".join(each.references),
            each.caption,
            each.image,
        ]
        for each in rows
    ]
    data = {"columns": COLUMNS, "kinds": KINDS, "rows": cells}
    return [Chapter(title, "table", data, note)] if cells else []
