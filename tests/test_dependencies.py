"""What the package imports is what it declares, with a licence and a pin."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", name)[0]).lower()  # type: ignore[index]


DECLARED = {
    normal(each)
    for requirements in (
        PROJECT["dependencies"],
        *(found for extra, found in PROJECT["optional-dependencies"].items() if extra != "dev"),
    )
    for each in requirements
}


def imported() -> dict[str, str]:
    """Top-level names of other packages, each with a file that imports it, at any depth of code."""
    found = {}
    for file in sorted((ROOT / "glassformer").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [str(node.module)]
            found |= {name.split(".")[0]: str(file.relative_to(ROOT)) for name in names}
    own = {"glassformer", *sys.stdlib_module_names}
    return {name: file for name, file in found.items() if name not in own}


IMPORTED = imported()
OF_THE_USER = {"pandas"}  # imported to return a data frame to those who have it


@pytest.mark.parametrize("name", sorted(IMPORTED.keys() - OF_THE_USER))
def test_every_import_is_declared(name: str) -> None:
    packages = packages_distributions().get(name, [name])  # one that is not installed
    assert DECLARED & set(map(normal, packages)), f"{IMPORTED[name]} imports {name}"


@pytest.mark.parametrize("name", sorted(DECLARED - {"glassformer", "wandb"}))
def test_every_dependency_is_pinned(name: str) -> None:
    pins = [normal(line) for line in (ROOT / "constraints.txt").read_text().splitlines()]
    assert name in pins


@pytest.mark.parametrize("name", sorted(DECLARED - {"glassformer"}))
def test_every_dependency_has_a_licence_and_a_reason(name: str) -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rows = [
        line.split("|")[1]
        for line in page.split("## Dependencies")[1].splitlines()[4:]
        if "|" in line
    ]
    named = {normal(each) for row in rows for each in re.findall(r"[A-Za-z][\w-]+", row)}
    assert name in named


def test_make_passes_options_on_to_pip() -> None:
    made = subprocess.run(
        ["make", "-n", "-B", ".venv/develops", "PIP_ARGS=--extra-index-url ADDRESS"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    installs = [line for line in made.stdout.splitlines() if "pip install" in line]
    assert installs
    assert all("--extra-index-url ADDRESS" in line for line in installs)
