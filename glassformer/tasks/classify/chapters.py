"""What to see of a classifier and of a tagger: confusions, classes, calibration, and mistakes."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

import torch
from torch import Tensor, nn

from glassformer.inspect.chapters import (
    Answer,
    Chapter,
    ClassScore,
    Examination,
    affordable,
    of_rows,
    trend,
    wilson,
)
from glassformer.models.heads import Labeller
from glassformer.tasks.classify.scores import Answers, confusion_chapter
from glassformer.tasks.evaluating import WrongTags, wrong_sentences
from glassformer.tasks.tag.scores import Tagging
from glassformer.wording import shortened

MOST_ROWS, MOST_TOKENS = 2_000, 100_000
MOST_SHOWN, MOST_PICTURES = 20, 40  # mistakes
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
    answers: Answers,
    inputs: Sequence[str],
    num_held_out: int,
    can_weigh: bool,
    lengths: tuple[str, Sequence[int]] | None = None,
    picture: Callable[[int], str] | None = None,
) -> Examination:
    """What a classifier answers to held-out `inputs`, as people see them; `can_weigh` is whether
    rare labels could count more. Texts have `lengths`, in units of that name, and for an image
    `picture` returns what a page shows of it."""
    scores = answers.judge()
    what, column = ("example", "text") if picture is None else ("image", "file")
    note = of_rows(len(inputs), num_held_out, what)
    shown = []
    for number, text in enumerate(inputs):
        true, predicted = (
            answers.named(chosen[number]) for chosen in (answers.true, answers.predicted)
        )
        shown.append(Answer(text, _joined(true), _joined(predicted), float(true == predicted)))
    chapters = [
        *(confusion_chapter(scores.confusion, what, note) if scores.confusion else ()),
        *classes("Classes", scores.classes, note),
        *calibration(answers.confidence.flatten(), answers.is_right.flatten(), note),
    ]
    if lengths is not None:
        unit, counts = lengths
        chapters += trend(
            f"Accuracy by length in {unit}",
            counts,
            [each.score for each in shown],
            (unit, "accuracy"),
            f"{note} Each point is a tenth of them, with its 95% interval.",
            "text",
        )
    if errors := answers.surest_errors():
        columns = {"confidence": "share", "predicted": "label", "labelled": "label"}
        columns |= ({} if picture is None else {"image": "image"}) | {column: "text"}
        rows = []
        for number, probability in errors[: MOST_SHOWN if picture is None else MOST_PICTURES]:
            answer, image = shown[number], () if picture is None else (picture(number),)
            rows.append([probability, answer.found, answer.expected, *image, answer.input])
        data = {"columns": [*columns], "rows": rows, "kinds": [*columns.values()]}
        how = f"The {len(rows)} most confident of {len(errors):,} wrong answers."
        chapters.append(Chapter("Mistakes", "table", data, how))
    part = f" {note}" if len(inputs) < num_held_out else ""
    notes = tuple(f"{each}{part}" for each in scores.with_advice(can_weigh).notes)
    return Examination(tuple(chapters), "accuracy", tuple(shown), notes)


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


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


def examine_tagger(
    scores: Tagging, sentences: Sequence[WrongTags], num_held_out: int
) -> Examination:
    """What a tagger answers to held-out sentences, and its scores on these."""
    note = of_rows(len(sentences), num_held_out, "sentence")
    if scores.scheme:
        note += f" Entities are marked in {scores.scheme}."
    confidence = torch.tensor([score for each in sentences for score in each.scores])
    is_right = torch.tensor(
        [tag == made for s in sentences for tag, made in zip(s.tags, s.predicted, strict=True)]
    )
    chapters = [
        *confusion_chapter(scores.confusion, "word", note),
        *classes("Tags" if scores.f1 is None else "Entities", scores.types, note),
        *calibration(confidence, is_right, note),
        *trend(
            "Right tags by length of the sentence",
            [len(each.words) for each in sentences],
            [each.share_right for each in sentences],
            ("words", "share of right tags"),
            f"{note} Each point is a tenth of them, with its 95% interval.",
            "sentence",
        ),
    ]
    if wrong := wrong_sentences(sentences):
        shown = [asdict(each) | {"source": ""} for each in wrong[:MOST_SHOWN]]
        how = f"The {len(shown)} of {len(wrong):,} sentences with the surest wrong tags. Below a "
        how += "word: the predicted tag, and the right one."
        chapters.append(Chapter("Mistakes", "tagged", {"sentences": shown}, how))
    answers = [
        Answer(
            shortened(" ".join(each.words), MOST_CHARACTERS),
            " ".join(each.tags),
            " ".join(each.predicted),
            each.share_right,
        )
        for each in sentences
    ]
    return Examination(tuple(chapters), "share of right tags", tuple(answers))
