"""The report page: every picture is drawn, nothing is markup, and equal reports are equal bytes."""

import json
import re
import shutil
import subprocess
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from test_alignment_pictures import HOSTILE

from glassformer.errors import UsageError
from glassformer.inspect.chapters import Chapter
from glassformer.inspect.page import part
from glassformer.training.report import PICTURES, as_json, draw, page

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
NAMES = [f"class {number}" for number in range(60)]


class Outline(HTMLParser):
    """The elements of a page, and what stands in its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.addresses: list[str] = []
        self.scripts: list[str] = []
        self.is_in_script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.addresses += [value or "" for key, value in attrs if key in ("src", "href")]
        self.is_in_script = tag == "script"
        if self.is_in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.is_in_script = False

    def handle_data(self, data: str) -> None:
        if self.is_in_script:
            self.scripts[-1] += data


def chapters(labels: list[str], text: str) -> list[dict[str, Any]]:
    """One of each kind."""
    size = len(labels)
    counts = [[5 if a == b else int((a + b) % 7 == 0) for a in range(size)] for b in range(size)]
    scores = [
        {"label": label, "precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": number}
        for number, label in enumerate(labels)
    ]
    point = {"x": 3.0, "y": 0.5, "low": 0.4, "high": 0.6, "count": 9}
    tagged = {"words": [text, "x"], "tags": ["B", "O"], "predicted": ["O", "O"], "scores": [0.9, 1]}
    table = {"columns": ["confidence", "text"], "kinds": ["share", "text"], "rows": [[0.9, text]]}
    known = {"text": text, "bits": 3.0, "guesses": [[text, 0.5]]}
    data = {
        "confusion": {"labels": labels, "counts": counts, "what": "example"},
        "classes": {"classes": scores},
        "calibration": {
            "bins": [{"confidence": 0.9, "accuracy": 1.0, "low": 0.5, "high": 1.0, "count": 1}]
        },
        "trend": {
            "x": "a",
            "y": "b",
            "points": [point, point | {"x": 5.0}],
            "is_share": True,
            "what": "text",
        },
        "histogram": {"x": "ratio", "bins": [{"from": 0, "to": None, "count": 3}]},
        "tagged": {"sentences": [tagged]},
        "tokens": {"tokens": [{"text": "a"}, known], "is_spaced": False},
        "heat_maps": {
            "maps": [{"title": "t", "rows": [text], "columns": ["a"], "weights": [[1.0]]}]
        },
        "places": {
            "scenes": [
                {
                    "title": text,
                    "image": "data:image/png;base64,",
                    "size": [8, 4],
                    "panels": [{"label": text, "weights": [[0.1, 0.7], [0.2, 0.0]]}],
                }
            ]
        },
        "table": table,
    }
    return [Chapter(f"The {kind}", kind, each).as_json() for kind, each in data.items()]


def report(labels: list[str] = NAMES[:2], text: str = "words") -> dict[str, Any]:
    return {
        "title": f"bag small, trained on {text}",
        "facts": {"Model": {"model": "bag", "parameters": 1234}, "Data": {"data": text}},
        "measure": "accuracy",
        "best": {"step": 20, "scores": {"val_loss": 0.5, "val_accuracy": 0.75}},
        "notes": [f"{text} is never found."],
        "test": None,
        "metrics": {
            "step": [10, 20, 30],
            "train_loss": [0.9, 0.7, 0.6],
            "val_loss": [None, 0.5, 0.6],
            "val_accuracy": [None, 0.75, 0.7],
            "learning_rate": [0.1, 0.05, 0.0],
        },
        "samples": [{"step": 20, "text": text}],
        "chapters": chapters(labels, text),
        "answers": {
            "measure": "accuracy",
            "rows": [
                {"input": text, "expected": "a", "found": "a", "score": 1.0},
                {"input": "b", "expected": "b", "found": "a", "score": 0.0},
            ],
        },
        "tensorboard": True,
        "version": "1",
    }


def in_browser(tmp_path: Path, text: str, *events: Any, width: int = 900) -> dict[str, Any]:
    data, script = Outline(text).scripts
    (tmp_path / "data.json").write_text(data)
    (tmp_path / "script.js").write_text(script, encoding="utf-8")
    program = Path(__file__).with_name("report.mjs")
    files = (program, tmp_path / "script.js", tmp_path / "data.json")
    done = subprocess.run(
        ["node", *map(str, files), str(width)],
        input=json.dumps(events),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_kind_of_picture_is_in_this_test() -> None:
    kinds = {each["picture"] for each in chapters(NAMES[:2], "x")}
    assert kinds | {"curves"} == set(PICTURES)
    for name in PICTURES:
        assert f"pictures.{name} = " in part(f"pictures/{name}.js")


@needs_node
@pytest.mark.parametrize("width", [320, 1600])
@pytest.mark.parametrize("number", [2, 60])
def test_everything_is_drawn_on_narrow_and_wide_screens(
    tmp_path: Path, number: int, width: int
) -> None:
    found = in_browser(tmp_path, page([report(NAMES[:number])]), width=width)
    titles = [each["title"] for each in chapters(NAMES[:2], "")]
    assert found["headings"] == ["Learning curves", *titles, "Samples"]
    assert set(NAMES[:number]) <= set(found["labels"])
    assert found["facts"] == {"model": "bag", "parameters": "1,234", "data": "words"}
    assert found["tokens"] == [["words", 0.75]]
    assert found["tags"] == ["O 90%", "B"]
    assert "tensorboard --logdir RUN" in found["footer"][0]


@needs_node
def test_the_curves_show_the_values_at_the_best_step_and_then_where_one_points(
    tmp_path: Path,
) -> None:
    text = page([report()])
    found = in_browser(tmp_path, text)
    assert found["said"][0] == "Step 20"
    assert found["readouts"] == ["training 0.7 · validation 0.5", "0.75", "0.05"]
    moved = in_browser(tmp_path, text, ("svg", 0, "pointermove", {"clientX": 5000}))
    assert moved["said"][0] == "Step 30"
    assert moved["readouts"][0] == "training 0.6 · validation 0.6"
    keys = in_browser(tmp_path, text, ("svg", 0, "keydown", {"key": "ArrowLeft"}))
    assert keys["said"][0] == "Step 10"


@needs_node
def test_a_trend_names_its_score_and_what_it_counts(tmp_path: Path) -> None:
    said = in_browser(tmp_path, page([report()]))["said"]
    assert "a about 5: b 50.0%, 9 texts" in said
    point = {"x": 5.0, "y": 18.1, "low": 15.0, "high": 21.0, "count": 1}
    data = {"x": "length", "y": "mean chrF", "points": [point], "is_share": False, "is_log": True}
    chapter = Chapter("t", "trend", data | {"what": "sentence", "most": 100}).as_json()
    found = in_browser(tmp_path, page([report() | {"chapters": [chapter]}]))
    assert "length about 5: mean chrF 18.1, 1 sentence" in found["said"]
    assert {"length (logarithmic)", "100"} <= set(found["labels"])


@needs_node
def test_the_curves_say_what_the_losses_are_measured_with(tmp_path: Path) -> None:
    one, other = report() | {"about_loss": "one."}, report() | {"about_loss": "other."}
    assert "one." in in_browser(tmp_path, page([one]))["notes"]
    notes = in_browser(tmp_path, page([one, other], ["runs/a", "runs/b"]))["notes"]
    assert [each for each in notes if each.endswith(("one.", "other."))] == [
        "\u2068runs/a\u2069: one.",
        "\u2068runs/b\u2069: other.",
    ]
    alone = one | {"metrics": {"step": [10], "train_loss": [0.5]}}
    assert "one." not in in_browser(tmp_path, page([alone]))["notes"]


@needs_node
def test_steps_can_be_logarithmic_and_classes_sorted(tmp_path: Path) -> None:
    text = page([report(NAMES[:3])])
    logarithmic = in_browser(tmp_path, text, ("input", 0, "input", {"checked": True}))
    assert logarithmic["readouts"] == ["training 0.7 · validation 0.5", "0.75", "0.05"]
    assert logarithmic["labels"].count("step (logarithmic)") == 3
    support = ("button", 4, "click", {})
    once, twice = (in_browser(tmp_path, text, *[support] * number) for number in (1, 2))
    assert [row[0] for row in once["tables"][0][1:]] == NAMES[:3]
    assert [row[0] for row in twice["tables"][0][1:]] == NAMES[2::-1]


@needs_node
def test_no_text_becomes_markup(tmp_path: Path) -> None:
    plain = in_browser(tmp_path, page([report(NAMES[:20])]))
    for text in ("<script>alert(1)</script>", "</script>", "\u202eabc", "北京", "مرحبا", "🙂"):
        found = page([report([*HOSTILE, text], text)])
        assert Outline(found).elements == Outline(page([report()])).elements
        data = Outline(found).scripts[0]
        assert data.isascii()
        assert "<" not in data
        drawn = in_browser(tmp_path, found)
        assert drawn["names"] == plain["names"]
        assert drawn["title"].endswith(text)


def test_the_page_asks_the_network_for_nothing() -> None:
    text = page([report()]).replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert Outline(text).addresses == ["data:,"]  # an empty icon
    assert re.findall(r"https?://|url\(|@import|import\s|fetch\(", text) == []
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
    assert "default-src 'none'" in text


@needs_node
def test_a_run_without_a_validation_has_no_empty_chapters(tmp_path: Path) -> None:
    begun = report() | {"best": None, "metrics": {}, "samples": [], "chapters": []}
    found = in_browser(tmp_path, page([begun]))
    assert (found["headings"], found["pictures"]) == ([], [])
    logged = {"step": [10], "train_loss": [0.5]}
    found = in_browser(tmp_path, page([begun | {"metrics": logged}]))
    assert found["headings"] == ["Learning curves"]
    assert found["readouts"] == ["0.5"]


@needs_node
def test_several_runs_are_overlaid_and_their_answers_compared(tmp_path: Path) -> None:
    other = deepcopy(report())
    other["answers"]["rows"][1] |= {"found": "b", "score": 1.0}
    other["metrics"]["step"] = [10, 20, 90]
    text = page([report(), other], ["runs/a", "runs/b"])
    found = in_browser(tmp_path, text, ("svg", 0, "pointermove", {"clientX": 5000}))
    assert found["title"] == "2 runs side by side"
    assert found["headings"] == ["Learning curves", "Scores", "Different answers"]
    assert found["readouts"][1] == "runs/b 0.7"  # runs/a has no step 90
    scores, answers = found["tables"]
    assert scores[1][:4] == ["runs/a", "bag", "1,234", "20"]
    assert scores[2][-2:] == ["1", "0.3424 to 1"]
    assert answers[1] == ["b", "b", "✗ a", "✓ b"]
    assert "runs/b is better on 1 and worse on 0" in " ".join(found["notes"])
    opened = in_browser(tmp_path, text, ("run", 0, "toggle", {"open": True}))
    assert "The confusion" in opened["headings"]


def test_only_answers_to_the_same_inputs_are_compared() -> None:
    other = deepcopy(report())
    for row in other["answers"]["rows"]:
        row["score"] = 1 - row["score"]
    rows = other["answers"]["rows"]
    rows[0]["input"] = "another"
    scores, answers = as_json([report(), other], ["a", "b"])["together"]
    assert (scores["title"], answers["title"]) == ("Scores", "Different answers")
    assert f"the same {len(rows) - 1:,} held-out inputs" in answers["note"]
    for row in rows:
        row["input"] = "another"
    together = as_json([report(), other], ["a", "b"])["together"]
    assert [each["title"] for each in together] == ["Scores"]


def test_json_has_every_digit_and_the_page_a_few(tmp_path: Path) -> None:
    draw([report()], ["runs/a"], tmp_path / "r.json")
    (run,) = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert run == {"run": "runs/a"} | report()
    assert "0.333333" in Outline(page([report()])).scripts[0]
    assert str(1 / 3) not in page([report()])
    with pytest.raises(UsageError, match=r"must end in \.html or \.json"):
        draw([report()], ["runs/a"], tmp_path / "r.pdf")
