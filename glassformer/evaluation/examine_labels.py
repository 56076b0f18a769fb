"""What to see of a classifier and of a tagger: confusions, classes, calibration, and mistakes."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn

from glassformer.data.padded_batches import LabelledRows, end_to_end
from glassformer.evaluation.chapter import (
    Answer,
    Chapter,
    Examination,
    affordable,
    of_rows,
    trend,
)
from glassformer.evaluation.classification import Classification, judge, read_logits
from glassformer.evaluation.confusion import confusion_chapter
from glassformer.evaluation.mistakes import (
    WrongTags,
    chosen_labels,
    surest_errors,
    wrong_sentences,
)
from glassformer.evaluation.precision_recall import ClassScore, wilson
from glassformer.evaluation.tagging import Tagging
from glassformer.models.labeller import Labeller
from glassformer.wording import shortened

MOST_ROWS, MOST_TOKENS = 2_000, 100_000
MOST_SHOWN = 20  # mistakes
MOST_CHARACTERS = 600  # of a text
CALIBRATION_BINS = 10


def rows_to_read(lengths: Sequence[int], model: Labeller) -> list[int]:
    """The numbers of the held-out rows to examine: all, every second, every fourth, …, so that
    those of a large model are among those of a small one."""
    tables = {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}
    # A table is looked up, not multiplied: a bag with millions of vectors reads fast.
    num_multiplied = sum(each.numel() for each in model.parameters() if id(each) not in tables)
    mean = max(1.0, sum(lengths) / max(1, len(lengths)))
    most = max(1, min(MOST_ROWS, int(affordable(num_multiplied, MOST_TOKENS) / mean)))
    stride = 1
    while stride * most < len(lengths):
        stride *= 2
    return list(range(0, len(lengths), stride))


def examine_classifier(
    model: Labeller,
    rows: LabelledRows,
    unit: str,
    shown: Callable[[int], str],
    can_weigh: bool,
) -> Examination:
    """On the held-out rows; `shown` is the text of one of them, and `can_weigh` whether rare labels
    could count more."""
    chosen = rows_to_read(rows.lengths.tolist(), model)
    part = LabelledRows(
        *end_to_end([rows.row(number) for number in chosen], rows.items.dtype),
        rows.targets[chosen],
        is_per_item=False,
    )
    labels, several = model.labels, model.config.multi_label
    logits, targets = read_logits(model, part), torch.from_numpy(part.targets).long()
    temperature = float(model.temperature)
    found = judge(logits, targets, labels, temperature=temperature, multi_label=several)
    note = of_rows(len(chosen), len(rows), "example")

    def named(row: int) -> tuple[str, ...]:
        if several:
            return tuple(name for name, is_on in zip(labels, targets[row], strict=True) if is_on)
        return (labels[int(targets[row])],)

    def answer(row: int) -> Answer:
        given, made = named(row), chosen_labels(logits[row], labels, several)
        text = shortened(shown(chosen[row]), MOST_CHARACTERS)
        return Answer(text, _joined(given), _joined(made), float(given == made))

    answers = tuple(map(answer, range(len(chosen))))
    errors = surest_errors(logits, targets, temperature, several)
    chapters = [
        *(confusion_chapter(found.confusion, "example", note) if found.confusion else ()),
        *classes("Classes", found.classes, note),
        *calibration(*confidence_of(logits, targets, temperature, several), note),
        *trend(
            f"Accuracy by length in {unit}s",
            part.lengths.tolist(),
            [each.score for each in answers],
            (f"{unit}s", "accuracy"),
            f"{note} Each point is a tenth of them, with its 95% interval.",
            "text",
        ),
        *_mistakes(answers, errors),
    ]
    notes = remarks(found, can_weigh, note if len(chosen) < len(rows) else "")
    return Examination(tuple(chapters), "accuracy", answers, notes)


def remarks(found: Classification, can_weigh: bool, part: str) -> tuple[str, ...]:
    """What to know about the scores; `part` says on which part of the data, if not on all."""
    return tuple(f"{note} {part}".rstrip() for note in found.with_advice(can_weigh).notes)


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def confidence_of(
    logits: Tensor, targets: Tensor, temperature: float, several: bool
) -> tuple[Tensor, Tensor]:
    """The probability of each answer, and whether it is right; with several labels, each is one."""
    scaled = logits.double() / temperature
    if several:
        return scaled.abs().sigmoid().flatten(), ((logits > 0) == targets.bool()).flatten()
    confidence, chosen = scaled.softmax(-1).max(-1)
    return confidence, chosen == targets


def classes(title: str, scores: Sequence[ClassScore], note: str) -> list[Chapter]:
    """Precision, recall and F1 of each class that occurs."""
    rows = [asdict(each) for each in scores if each.support or each.precision or each.recall]
    return [Chapter(title, "classes", {"classes": rows}, note)] if rows else []


def calibration(confidence: Tensor, is_right: Tensor, note: str) -> list[Chapter]:
    """Of the answers given with a confidence, how many are right? Nothing without answers."""
    numbers = (confidence * CALIBRATION_BINS).long().clamp(0, CALIBRATION_BINS - 1)
    bins = []
    for number in numbers.unique().tolist():
        here = numbers == number
        right, count = int(is_right[here].sum()), int(here.sum())
        low, high = wilson(right, count)
        bins.append(
            {
                "confidence": float(confidence[here].mean()),
                "accuracy": right / count,
                "low": low,
                "high": high,
                "count": count,
            }
        )
    how = "Of the answers given with 80% confidence, 80% should be right: points on the line are "
    how += f"well calibrated. Bars show how many answers there are. {note}"
    return [Chapter("Calibration", "calibration", {"bins": bins}, how)] if bins else []


def _mistakes(answers: Sequence[Answer], errors: Sequence[tuple[int, float]]) -> list[Chapter]:
    if not errors:
        return []
    rows = [
        [probability, answers[row].found, answers[row].expected, answers[row].input]
        for row, probability in errors[:MOST_SHOWN]
    ]
    data = {"columns": ["confidence", "predicted", "labelled", "text"], "rows": rows}
    data["kinds"] = ["share", "label", "label", "text"]
    note = f"The {len(rows)} most confident of {len(errors):,} wrong answers."
    return [Chapter("Mistakes", "table", data, note)]


def examine_tagger(
    found: Tagging, sentences: Sequence[WrongTags], num_held_out: int, note_on: str
) -> Examination:
    """Of these held-out sentences with the model's tags, whose scores were `found`."""
    note = of_rows(len(sentences), num_held_out, "sentence") + note_on
    scores = torch.tensor([score for each in sentences for score in each.scores])
    is_right = torch.tensor(
        [tag == made for s in sentences for tag, made in zip(s.tags, s.predicted, strict=True)]
    )
    shares = [_share_right(each) for each in sentences]
    wrong = wrong_sentences(sentences)
    shown = [asdict(each) for each in wrong[:MOST_SHOWN]]
    chapters = [
        *confusion_chapter(found.confusion, "word", note),
        *classes("Tags" if found.f1 is None else "Entities", found.types, note),
        *calibration(scores, is_right, note),
    ]
    lengths = [len(each.words) for each in sentences]
    how = f"{note} Each point is a tenth of them, with its 95% interval."
    names = ("words", "share of right tags")
    chapters += trend(
        "Right tags by length of the sentence", lengths, shares, names, how, "sentence"
    )
    if shown:
        how = f"The {len(shown)} of {len(wrong):,} sentences with the surest wrong tags. Below a "
        how += "word: the predicted tag, and the right one."
        chapters.append(Chapter("Mistakes", "tagged", {"sentences": shown}, how))
    answers = [
        Answer(" ".join(each.words), " ".join(each.tags), " ".join(each.predicted), share)
        for each, share in zip(sentences, shares, strict=True)
    ]
    short = [replace(each, input=shortened(each.input, MOST_CHARACTERS)) for each in answers]
    return Examination(tuple(chapters), "share of right tags", tuple(short))


def _share_right(each: WrongTags) -> float:
    pairs = list(zip(each.tags, each.predicted, strict=True))
    return sum(tag == made for tag, made in pairs) / len(pairs)
