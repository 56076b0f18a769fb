"""Several runs side by side: their scores in one table, and the inputs on which they differ."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.evaluation.chapter import Chapter, mean_interval
from glassformer.evaluation.precision_recall import NORMAL_95
from glassformer.wording import score_name

MOST_SHOWN = 20
Report = dict[str, Any]


def compared(names: Sequence[str], reports: Sequence[Report]) -> list[Chapter]:
    """Chapters about all runs; none for a single run."""
    if len(reports) < 2:
        return []
    chapters = [_scores(names, reports)]
    answers = [
        {(row["input"], row["expected"]): row for row in each["answers"]["rows"]}
        for each in reports
    ]
    # Of a large model, fewer inputs were examined.
    if same := [key for key in answers[0] if all(key in rows for rows in answers)]:
        shared = [[rows[key] for key in same] for rows in answers]
        chapters += _differences(names, shared, reports[0]["answers"]["measure"])
    return chapters


def _scores(names: Sequence[str], reports: Sequence[Report]) -> Chapter:
    """The validation scores of every run's best model, and an interval where one is known."""
    measures = list(dict.fromkeys(key for each in reports for key in _best(each)["scores"]))
    measures = [key for key in measures if any(key in _best(each)["scores"] for each in reports)]
    answered = [each["answers"] for each in reports]
    columns = ["run", "model", "parameters", "best step"]
    columns += [score_name(key) for key in measures]
    kinds = ["label", "label", "count", "count", *["number" for _ in measures]]
    with_answers = next((each["measure"] for each in answered if each["rows"]), None)
    if with_answers:
        columns += [f"{with_answers} in this report", "95% interval"]
        kinds += ["number", "interval"]
    rows = []
    for name, each, answers in zip(names, reports, answered, strict=True):
        model, best = each["facts"]["Model"], _best(each)
        shape = " ".join(filter(None, [model["model"], model.get("preset")]))
        row = [name, shape, model.get("parameters"), best["step"]]
        row += [best["scores"].get(key) for key in measures]
        if with_answers:
            scores = [one["score"] for one in answers["rows"]]
            row += [float(np.mean(scores)), list(mean_interval(scores))] if scores else [None, None]
        rows.append(row)
    note = "Held-out scores of the best model of each run. They can be compared only if the runs "
    note += "hold out the same data."
    return Chapter("Scores", "table", {"columns": columns, "kinds": kinds, "rows": rows}, note)


def _best(report: Report) -> Report:
    return report["best"] or {"step": None, "scores": {}}


def _differences(
    names: Sequence[str], answers: Sequence[list[dict[str, Any]]], measure: str
) -> list[Chapter]:
    """The inputs on which the runs differ most, if there are any."""
    scores = np.array([[row["score"] for row in rows] for rows in answers])  # (runs, inputs)
    spread = scores.max(0) - scores.min(0)
    if not spread.any():
        return []
    chosen = np.argsort(-spread, kind="stable")[:MOST_SHOWN]
    columns = ["input", "expected", *names]
    kinds = ["text", "label", *["answer" for _ in names]]
    rows = [
        [
            answers[0][place]["input"],
            answers[0][place]["expected"],
            *([rows[place]["found"], rows[place]["score"]] for rows in answers),
        ]
        for place in chosen.tolist()
        if spread[place] > 0
    ]
    note = f"The runs were given the same {scores.shape[1]:,} held-out inputs and differ on "
    note += f"{int((spread > 0).sum()):,} of them. {_summary(names, scores, measure)}"
    data = {"columns": columns, "kinds": kinds, "rows": rows}
    return [Chapter("Different answers", "table", data, note)]


def _summary(names: Sequence[str], scores: "np.ndarray[Any, Any]", measure: str) -> str:
    """For two runs: how much better the second is, input by input."""
    if len(names) != 2:
        return f"The largest differences in {measure} come first."
    first, second = scores
    gain = second - first
    reach = NORMAL_95 * gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    text = f"{names[1]} is better on {better:,} and worse on {worse:,}"
    if not np.isfinite(reach):
        return f"{text}."
    low, high = gain.mean() - reach, gain.mean() + reach
    return f"{text}: {measure} {gain.mean():+.4f} (95% interval {low:+.4f} to {high:+.4f})."
