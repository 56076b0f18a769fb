"""What to see of a classifier of images: confusions, classes, calibration, and its mistakes."""

from glassformer.data.image_rows import ImageRows
from glassformer.data.thumbnails import data_uri
from glassformer.evaluation.chapter import Answer, Chapter, Examination, of_rows, spread
from glassformer.evaluation.classification import judge
from glassformer.evaluation.confusion import confusion_chapter
from glassformer.evaluation.examine_labels import calibration, classes, confidence_of, remarks
from glassformer.evaluation.image_logits import read_image_logits
from glassformer.evaluation.mistakes import surest_errors
from glassformer.models.image_classifier import ImageClassifier
from glassformer.preprocessing.image import ImagePreprocessing

MOST_PIXELS = 10**7
MOST_SHOWN = 40  # mistakes
LARGEST = 96  # pixels of a side of an image in a report
SHOWN_OF_EACH = 4  # right answers, and wrong ones, with the places that were looked at


def examine_images(
    model: ImageClassifier, preprocessing: ImagePreprocessing, rows: ImageRows, can_weigh: bool
) -> Examination:
    """On the held-out images; `can_weigh` is whether rare labels could count more."""
    height, width = preprocessing.image_size
    chosen = spread(len(rows), max(1, min(2_000, MOST_PIXELS // (height * width))))
    labels = model.labels
    logits = read_image_logits(
        model, preprocessing, lambda part: rows.images(chosen[part.start : part.stop]), len(chosen)
    )
    targets, temperature = rows.goals(chosen), float(model.temperature)
    found = judge(logits, targets, labels, temperature=temperature)
    note = of_rows(len(chosen), len(rows), "image")

    def answer(place: int) -> Answer:
        truth, best = labels[int(targets[place])], labels[int(logits[place].argmax())]
        return Answer(rows.source(chosen[place]), truth, best, float(truth == best))

    answers = tuple(map(answer, range(len(chosen))))
    errors = surest_errors(logits, targets, temperature, False)
    chapters = [
        *(confusion_chapter(found.confusion, "image", note) if found.confusion else ()),
        *classes("Classes", found.classes, note),
        *calibration(*confidence_of(logits, targets, temperature, False), note),
    ]
    if errors:
        shown = [
            [
                probability,
                answers[place].found,
                answers[place].expected,
                data_uri(rows.images([chosen[place]])[0], LARGEST),
                answers[place].input,
            ]
            for place, probability in errors[:MOST_SHOWN]
        ]
        data = {"columns": ["confidence", "predicted", "labelled", "image", "file"], "rows": shown}
        data["kinds"] = ["share", "label", "label", "image", "text"]
        how = f"The {len(shown)} most confident of {len(errors):,} wrong answers."
        chapters.append(Chapter("Mistakes", "table", data, how))
    notes = remarks(found, can_weigh, note if len(chosen) < len(rows) else "")
    return Examination(tuple(chapters), "accuracy", answers, notes)


def answers_to_show(found: Examination, rows: ImageRows) -> list[tuple[int, str]]:
    """A few right and a few wrong answers of an examination, evenly spaced: the places of their
    images, and titles."""
    places = spread(len(rows), len(found.answers))
    chosen = []
    for is_right in (True, False):
        some = [n for n, each in enumerate(found.answers) if (each.score == 1) is is_right]
        for number in (some[n] for n in spread(len(some), SHOWN_OF_EACH)):
            answer = found.answers[number]
            wrong = "" if is_right else f", labelled {answer.expected}"
            chosen.append((places[number], f"{answer.input}: {answer.found}{wrong}"))
    return chosen
