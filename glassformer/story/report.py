"""The report of one run or of several side by side, as a page or as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glassformer.atomic_files import write_file, write_json_line
from glassformer.story.comparison import Report, compared
from glassformer.story.figures import check_ending
from glassformer.story.page import assembled

# One file for each kind of picture; `report.js` comes last and draws them.
PICTURES = (
    *("table", "curves", "confusion", "classes", "calibration", "trend", "histogram"),
    *("tagged", "tokens", "heat_maps", "places"),
)
ENDINGS = (".html", ".json")
STYLES = ("page.css", "report.css")
SCRIPTS = (
    "elements.js",
    "scales.js",
    *(f"pictures/{name}.js" for name in PICTURES),
    "report.js",
)


def page(reports: Sequence[Report], names: Sequence[str] = ("",)) -> str:
    """One HTML page. Equal reports give equal bytes."""
    together = [each.as_json() for each in compared(names, reports)]
    runs = [
        {key: value for key, value in each.items() if key != "answers"} | {"name": name}
        for name, each in zip(names, reports, strict=True)
    ]
    return assembled("Report", "", STYLES, SCRIPTS, {"runs": runs, "together": together})


def as_json(reports: Sequence[Report], names: Sequence[str]) -> dict[str, Any]:
    """The same for programs, with every digit."""
    runs = [{"run": name} | each for name, each in zip(names, reports, strict=True)]
    return {"runs": runs, "together": [each.as_json() for each in compared(names, reports)]}


def draw(reports: Sequence[Report], names: Sequence[str], path: Path) -> None:
    """Write the report to `path`, whole or not at all."""
    if check_ending(path, ENDINGS) == ".json":
        write_json_line(path, as_json(reports, names))
    else:
        write_file(path, page(reports, names))
