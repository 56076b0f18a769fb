"""Notebooks as text: Markdown with cells of code, as MyST reads it, and Jupyter's JSON.

    ```{code-cell}
    def causal_mask(length):
        # solution
        return torch.ones(length, length).tril().bool()
        # end of solution
    check("causal_mask", causal_mask)
    ```

Notebooks are written once, with the solutions; students get them without.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from glassformer.course.notebooks import NOTEBOOKS
from glassformer.errors import GlassformerError
from glassformer.files import read_json
from glassformer.wording import did_you_mean

CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```[ \t]*$\n?", re.MULTILINE | re.DOTALL)
OPTIONS = re.compile(r"\A(?::[\w-]+:[^\n]*\n)+")
SOLUTION = re.compile(
    r"^([ \t]*)# solution *\n(.*?)^[ \t]*# end of solution *$", re.MULTILINE | re.DOTALL
)
HEADER = re.compile(r"\A---\n(.*?)^---\n", re.MULTILINE | re.DOTALL)
YOUR_TURN = 'raise NotImplementedError("your turn")'


@dataclass(frozen=True)
class Cell:
    text: str
    is_code: bool
    options: str = ""  # lines of a MyST cell, such as ":tags: [remove-input]"


@dataclass(frozen=True)
class Notebook:
    cells: tuple[Cell, ...]
    header: str = ""  # of the Markdown file, in YAML

    @property
    def facts(self) -> dict[str, Any]:
        """What the header says about it: title, lecture, minutes."""
        return yaml.safe_load(self.header) or {}

    def without_solutions(self) -> "Notebook":
        return replace(self, cells=tuple(_without_solution(cell) for cell in self.cells))

    def as_markdown(self) -> str:
        header = [f"---\n{self.header}---\n"] if self.header else []
        return "\n".join([*header, *map(_written, self.cells)])

    def as_jupyter(self) -> str:
        cells = [_jupyter_cell(number, cell) for number, cell in enumerate(self.cells)]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
        values = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


@cache
def notebook(name: str) -> Notebook:
    """One of the course, with solutions."""
    if name not in NOTEBOOKS:
        cure = did_you_mean(name, NOTEBOOKS, f"Choose one of: {', '.join(NOTEBOOKS)}.")
        raise GlassformerError(f"there is no notebook {name!r}. {cure}")
    folder = resources.files("glassformer.course") / "notebooks"
    return from_markdown((folder / f"{name}.md").read_text(encoding="utf-8"))


def read_notebook(path: Path) -> Notebook:
    """A notebook in a file of Jupyter or in Markdown."""
    if path.suffix == ".md":
        try:
            return from_markdown(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise GlassformerError(f"{path} is not a text in UTF-8: {error.reason}.") from None
    if path.suffix != ".ipynb":
        raise GlassformerError(f"{path} is not a notebook. Pass a file ending in .ipynb or .md.")
    cells = read_json(path).get("cells")
    if not isinstance(cells, list):
        raise GlassformerError(f"{path} is not a notebook: it has no list of cells.")
    return Notebook(tuple(_from_jupyter(cells)))


def from_markdown(text: str) -> Notebook:
    header = HEADER.match(text)
    text = text[header.end() :] if header else text
    cells: list[str | re.Match[str]] = []
    end = 0
    for match in CELL.finditer(text):
        cells += [text[end : match.start()], match]
        end = match.end()
    return Notebook(tuple(_from_markdown([*cells, text[end:]])), header[1] if header else "")


def _from_markdown(parts: Iterable[str | re.Match[str]]) -> Iterable[Cell]:
    for part in parts:
        if isinstance(part, str):
            if part.strip():
                yield Cell(part.strip("\n"), is_code=False)
        else:
            options = OPTIONS.match(part[1])
            code = part[1][options.end() :] if options else part[1]
            yield Cell(code.strip("\n"), is_code=True, options=options[0] if options else "")


def _from_jupyter(cells: list[Any]) -> Iterable[Cell]:
    for cell in cells:
        source = cell.get("source", "") if isinstance(cell, dict) else ""
        text = "".join(source) if isinstance(source, list) else str(source)
        yield Cell(text, is_code=isinstance(cell, dict) and cell.get("cell_type") == "code")


def _without_solution(cell: Cell) -> Cell:
    if not cell.is_code:
        return cell
    return replace(cell, text=SOLUTION.sub(rf"\1{YOUR_TURN}", cell.text))


def _written(cell: Cell) -> str:
    if not cell.is_code:
        return f"{cell.text}\n"
    return f"```{{code-cell}}\n{cell.options}{cell.text}\n```\n"


def _jupyter_cell(number: int, cell: Cell) -> dict[str, Any]:
    values: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": cell.text}
    if not cell.is_code:
        return values | {"cell_type": "markdown"}
    return values | {"cell_type": "code", "execution_count": None, "outputs": []}
