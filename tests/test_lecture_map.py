"""The lecture map: everything that its pages name exists, and nothing that is wrong is left out."""

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from documented_files import taken

from glassformer import models
from glassformer.course.checking import exercises
from glassformer.tasks import task_of
from glassformer.training.preparation import recipe_keys

ROOT = Path(__file__).parent.parent
COURSE = ROOT / "docs" / "course"
PAGES = sorted(COURSE.glob("lecture-*.md"))
ERRATA = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
FIELDS = ("Slide", "Code", "Command", "Picture", "Test", "Erratum", "Exercise")
KINDS = re.compile(r"claim|table|code|(\d+ )?equations?|system \d+")
SYSTEMS = range(1, 21)


@dataclass(frozen=True)
class Row:
    """What one section of a page says: a claim, and where it is in the project."""

    page: str
    title: str
    text: str
    fields: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.page}: {self.title}"

    def of(self, *names: str) -> list[str]:
        return [value for name, value in self.fields if name in names]

    def names(self, field: str) -> list[str]:
        """What stands in code type in a field."""
        return [name for value in self.of(field) for name in re.findall(r"`([^`]+)`", value)]

    @property
    def kinds(self) -> list[str]:
        return [kind for slide in self.of("Slide") for kind in slide.split(" · ")[1].split(", ")]


@cache
def rows() -> tuple[Row, ...]:
    return tuple(row for page in PAGES for row in rows_of(page))


def rows_of(page: Path) -> Iterator[Row]:
    _, *sections = re.split(r"^### ", page.read_text(encoding="utf-8"), flags=re.M)
    for section in sections:
        title, _, body = re.split(r"^## ", section, flags=re.M)[0].partition("\n")
        text, *lines = re.split(r"^- ", body, flags=re.M)
        fields = [re.fullmatch(r"\*\*(\w+):\*\* (.+)", line.strip()) for line in lines]
        assert all(fields), f"{page.name}: {title}: a line of the list is no field"
        yield Row(page.name, title, text.strip(), tuple((m[1], m[2]) for m in fields if m))


def anchors(text: str) -> list[str]:
    """The anchors of all headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def commands() -> list[tuple[str, list[str]]]:
    """Every command, with the page or the row that has it."""
    found = [(str(row), command) for row in rows() for command in row.names("Command")]
    for page in COURSE.glob("*.md"):
        for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            found += [(page.name, line.removeprefix("$ ")) for line in block.splitlines()]
    return [(place, shlex.split(line, comments=True)) for place, line in found]


@cache
def defined(path: Path) -> frozenset[str]:
    """The names that a file defines, those in classes with the name of the class before them."""
    return frozenset(_defined(ast.parse(path.read_text(encoding="utf-8")).body))


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for name in _defined(node.body))
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def views() -> set[str]:
    """The views of all models."""
    predictors: list[Any] = [task_of(name).predictor for name in models.MODELS]
    return {name for predictor in predictors for name in getattr(predictor, "views", ())}


def test_there_is_a_page_for_each_of_the_five_lectures() -> None:
    assert [page.name for page in PAGES] == [f"lecture-{number}.md" for number in range(5)]


def test_every_row_is_a_claim_with_its_place_on_the_slides_and_in_the_code() -> None:
    for row in rows():
        names = [name for name, _ in row.fields]
        assert row.text, f"{row}: there is no text"
        assert set(names) <= set(FIELDS), f"{row}: unknown field"
        assert names == sorted(names, key=FIELDS.index), f"{row}: fields are in another order"
        assert names.count("Slide") == 1, f"{row}: which slide?"
        assert "Code" in names, f"{row}: no code"
        assert all(KINDS.fullmatch(kind) for kind in row.kinds), f"{row}: {row.kinds}"
        if any("equation" in kind for kind in row.kinds):
            assert "$$" in row.text, f"{row}: where is the equation?"
    titles = [(row.page, row.title) for row in rows()]
    assert len(set(titles)) == len(titles)


def test_every_symbol_exists() -> None:
    for row in rows():
        for name in row.names("Code"):
            path, _, symbol = name.partition(":")
            assert (ROOT / path).is_file(), f"{row}: {path}"
            assert symbol in defined(ROOT / path), f"{row}: {name}"


def test_every_test_exists() -> None:
    for row in rows():
        for name in row.names("Test"):
            path, _, test = name.partition("::")
            assert (ROOT / path).is_file(), f"{row}: {path}"
            assert test.startswith("test_"), f"{row}: {test}"
            assert test in defined(ROOT / path), f"{row}: {name}"


def test_every_command_is_one_that_the_program_takes() -> None:
    known_views, known_keys = views(), recipe_keys()
    assert len(commands()) > 100
    for place, words in commands():
        assert words[0] == "glassformer", f"{place}: {words}"
        context = taken(words[1:])
        verb, options = context.command, context.params
        if options.get("view") is not None:
            assert options["view"] in known_views, f"{place}: {options['view']}"
        if options.get("preset") is not None:
            models.row(options["model"] or "gpt").preset(options["preset"])
        for assignment in options.get("assignments") or ():
            section, _, key = assignment.partition("=")[0].partition(".")
            assert key in known_keys[section], f"{place}: {assignment}"
            if section == "model" and verb.name == "train":
                assert key in models.row(options["model"]).config.model_fields, (
                    f"{place}: {assignment}"
                )


def test_no_training_of_a_page_takes_the_folder_of_another() -> None:
    for page in PAGES:
        trained: dict[str, list[str]] = {}
        for place, words in commands():
            if place.startswith(page.name) and words[1] in ("train", "finetune"):
                name = words[words.index("--out") + 1] if "--out" in words else ""
                assert not name or trained.setdefault(name, words) == words, f"{place}: {name}"


def test_every_link_leads_somewhere() -> None:
    for page in COURSE.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)]+)\)", text):
            if link.startswith("https://"):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name} links to {link}"
            if anchor:
                found = anchors(target.read_text(encoding="utf-8"))
                assert found.count(anchor) == 1, f"{page.name} links to {link}"


def test_every_picture_is_one_of_the_docs_and_shows_something_once_on_a_page() -> None:
    for page in PAGES:
        files = [file for row in rows_of(page) for file in row.of("Picture")]
        for file in files:
            assert re.fullmatch(r"!\[.{20,}\]\(\.\./pictures/[\w-]+\.png\)", file), file
        assert len(set(files)) == len(files)


@pytest.mark.parametrize("number", range(5))
def test_every_mistake_of_a_lecture_has_its_row_with_the_tests_that_show_it(number: int) -> None:
    part = re.search(rf"^## Lecture {number}\n(.*?)(?=^## |\Z)", ERRATA, re.M | re.S)
    mistakes = re.split(r"^### ", part[1] if part else "", flags=re.M)[1:]
    on_page = list(rows_of(COURSE / f"lecture-{number}.md"))
    for mistake in mistakes:
        (anchor,) = anchors(f"### {mistake.splitlines()[0]}")
        about = [row for row in on_page if any(f"#{anchor})" in link for link in row.of("Erratum"))]
        assert about, f"lecture {number}: no row links to {anchor}"
        shown = re.findall(r"`(test_\w+)`", mistake)
        for row in about:
            named = {name.partition("::")[2] for name in row.names("Test")}
            assert set(shown) <= named, f"{row} does not name {shown}"
        assert all(link.startswith("[") for row in about for link in row.of("Erratum"))


def test_every_exercise_exists_in_the_notebook_that_is_named() -> None:
    for row in rows():
        for value in row.of("Exercise"):
            match = re.fullmatch(r"`(\w+)` in the notebook \*(\w+)\*", value)
            assert match, f"{row}: {value}"
            assert match[1] in exercises(), f"{row}: {match[1]}"
            assert exercises()[match[1]].notebook == match[2], f"{row}: {match[1]}"


def test_every_system_has_a_row_and_a_line_in_the_table() -> None:
    kinds = {kind for row in rows() for kind in row.kinds}
    index = (COURSE / "index.md").read_text(encoding="utf-8")
    listed = [int(number) for number in re.findall(r"^\| (\d+) \|", index, re.M)]
    assert listed == [*SYSTEMS]
    for number in SYSTEMS:
        assert f"system {number}" in kinds, f"no row has system {number}"
