"""The rules of the house, checked on the source: who imports whom, what is never used, how long."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import glassformer

PACKAGE = Path(glassformer.__file__).parent

LEVELS = {
    **dict.fromkeys(("errors", "wording", "tables", "config", "files"), 0),
    **dict.fromkeys(("options", "progress", "machine"), 0),
    **dict.fromkeys(("nn", "text"), 1),
    **dict.fromkeys(("models", "generation", "data"), 2),
    "preprocessing": 3,
    "checkpoint": 4,
    "inspect": 5,
    **dict.fromkeys(("tasks", "formats"), 6),
    **dict.fromkeys(("planning", "corpus"), 7),
    "training": 8,
    **dict.fromkeys(("comparison", "demo", "lightning"), 9),
    **dict.fromkeys(("api", "serve", "course"), 10),
    **dict.fromkeys(("cli", "sklearn"), 11),
    "__main__": 12,
}
ROOT = "__init__"  # the version for everyone, and load(), which reaches up only when it is called

ROOT_FOLDER = PACKAGE.parent
PAGES = [*ROOT_FOLDER.glob("*.md"), *(ROOT_FOLDER / "docs").glob("*.md")]

PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
RUN_CODE = {"eval", "exec", "compile", "__import__"}
LOAD_CODE = {
    *("torch.load", "torch.save", "torch.jit.load", "torch.serialization.load"),
    *("np.load", "numpy.load", "importlib.import_module"),
    *("yaml.load", "yaml.full_load", "yaml.unsafe_load"),
}

MOST_LINES, MOST_LINES_OF_A_FUNCTION = 700, 80
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}

Trees = dict[str, ast.Module]


@pytest.fixture(scope="module")
def trees() -> Trees:
    """Every file, parsed. They take 100 MB, which the tests of other files should not keep."""
    return {name: ast.parse(text) for name, text in SOURCES.items()}


def unit(file: str) -> str:
    """The part of the package that a file belongs to: its folder, or itself."""
    return file.split("/")[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a module imports, at any depth; relative imports are not allowed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names)


def imports_at_the_top(tree: ast.Module) -> Iterator[str]:
    """Those that run when the module is imported: not in functions, not for type checkers only."""
    for node in tree.body:
        is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) and not is_for_types:
            yield from imports(node)


def upward(file: str, tree: ast.AST) -> list[str]:
    """The imports of a file that do not go down, or stay within its own part."""
    own, found = unit(file), []
    for name in imports(tree):
        first, _, rest = name.partition(".")
        target = rest.split(".")[0] if first == "glassformer" else own
        if target in LEVELS and own not in (target, ROOT):
            is_ground = LEVELS[target] == LEVELS[own] == 0
            if LEVELS[target] >= LEVELS[own] and not is_ground:
                found.append(f"{file} imports {name}")
    return found


# The tables of models and tasks import them by name, so that listing them needs no torch and using
# one does not import the others. Models of other tools are opened by an annex that nothing below
# knows. The tables are closed: all names stand in our own code, and a file can only choose a row.
ALLOWED = {
    "models/__init__.py: importlib.import_module",
    "checkpoint/open.py: importlib.import_module",
    "tasks/__init__.py: importlib.import_module",
    "course/checking.py: importlib.import_module",
    "course/running.py: exec",  # a notebook that its owner wants to be run
    "course/running.py: compile",
}
ANNEXES = {"formats", "corpus"}


def forbidden(file: str, tree: ast.AST) -> list[str]:
    """Whatever could run code that came as data, and checks that -O would take away."""
    found = [name for name in imports(tree) if name.split(".")[0] in PICKLES or name in LOAD_CODE]
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            found.append("assert")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found += {node.func.id} & RUN_CODE
        elif isinstance(node, ast.Attribute):
            found += {ast.unparse(node)} & LOAD_CODE
        elif isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
            found.append("trust_remote_code")
    return [line for what in found if (line := f"{file}: {what}") not in ALLOWED]


def long_functions(file: str, tree: ast.AST) -> list[str]:
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [
        f"{file}: {function.name}"
        for function in functions
        if (function.end_lineno or 0) - function.lineno + 1 > MOST_LINES_OF_A_FUNCTION
    ]


def modules_after(program: str) -> set[str]:
    """The top-level modules that a fresh Python has loaded after running `program`."""
    report = "import sys, json; print(json.dumps([name.split('.')[0] for name in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{report}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


# --- who imports whom ---


def test_every_part_of_the_package_has_a_level() -> None:
    assert {unit(file) for file in SOURCES} == {*LEVELS, ROOT}


def test_imports_only_go_down(trees: Trees) -> None:
    assert [line for file, tree in trees.items() for line in upward(file, tree)] == []
    assert not any(name.startswith(".") for tree in trees.values() for name in imports(tree))


def test_only_verbs_know_the_annexes_and_only_when_they_need_them(trees: Trees) -> None:
    found = []
    for file, tree in trees.items():
        names = imports_at_the_top(tree) if unit(file) in ("api", "cli") else imports(tree)
        if unit(file) not in ANNEXES:
            found += [f"{file}: {name}" for name in names if ANNEXES & {*name.split(".")[1:2]}]
    assert found == []


def test_our_own_models_are_opened_without_the_annexes() -> None:
    program = (
        "import sys, glassformer.tasks, glassformer.training.command\n"
        "assert not any(name.startswith('glassformer.formats') for name in sys.modules)"
    )
    modules_after(program)


def test_an_import_that_goes_up_or_sideways_would_be_noticed() -> None:
    for line in ("from glassformer import comparison", "def f():\n import glassformer.cli.train"):
        assert upward("training/fit.py", ast.parse(line))
    assert upward("tasks/tag/predictor.py", ast.parse("from glassformer.training import run"))
    assert upward("nn/masks.py", ast.parse("from glassformer.text import streaming"))
    assert not upward("config.py", ast.parse("from glassformer.errors import UsageError"))


def test_modules_import_each_other_in_no_circle(trees: Trees) -> None:
    modules = {
        f"glassformer.{file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}": tree
        for file, tree in trees.items()
        if file != "__init__.py"  # everybody may ask it for the version
    }
    needs = {
        module: {
            other
            for name in imports_at_the_top(tree)
            if (other := name if name in modules else name.rpartition(".")[0]) in modules
        }
        for module, tree in modules.items()
    }
    TopologicalSorter(needs).prepare()  # raises CycleError


@pytest.mark.parametrize(
    ("package", "user"), [("lightning_fabric", "training"), ("lightning", "lightning")]
)
def test_only_one_part_imports_lightning(trees: Trees, package: str, user: str) -> None:
    users = {
        unit(file)
        for file, tree in trees.items()
        if any(name.split(".")[0] == package for name in imports(tree))
    }
    assert users == {user}


@pytest.mark.parametrize(
    "banned", ["transformers", "torchvision", "torchaudio", "requests", "seqeval"]
)
def test_some_packages_are_imported_nowhere(trees: Trees, banned: str) -> None:
    assert not [
        f for f, tree in trees.items() if banned in {n.split(".")[0] for n in imports(tree)}
    ]


def test_text_knows_no_torch(trees: Trees) -> None:
    text = [tree for file, tree in trees.items() if unit(file) == "text"]
    assert not any(name.split(".")[0] == "torch" for tree in text for name in imports(tree))
    assert "torch" not in modules_after("import glassformer.text.tokenizers")


@pytest.mark.parametrize(
    "part", ["machine", "cli", "api", "options", "tables", "config", "errors", "wording"]
)
def test_torch_is_imported_late(trees: Trees, part: str) -> None:
    own = [tree for file, tree in trees.items() if unit(file) == part]
    heavy = {"torch", "lightning_fabric", "numpy", "tokenizers", "matplotlib"}
    assert own
    assert not [n for tree in own for n in imports_at_the_top(tree) if n.split(".")[0] in heavy]


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\nsys.argv = ['glassformer', '--help']\nfrom glassformer.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass"
    )
    loaded = modules_after(program)
    assert "typer" in loaded
    assert not loaded & {"torch", "lightning_fabric", "pydantic", "rich", "numpy", "yaml"}
    assert not loaded & {"tokenizers", "matplotlib", "fastapi", "uvicorn", "starlette"}


def test_the_table_of_models_loads_nothing_heavy() -> None:
    loaded = modules_after(
        "import glassformer.models as m\nprint(m.trainable(), m.row('gpt').presets)"
    )
    assert not loaded & {"torch", "pydantic", "numpy"}


def test_only_one_room_draws(trees: Trees) -> None:
    users = {
        unit(file)
        for file, tree in trees.items()
        if any(name.split(".")[0] == "matplotlib" for name in imports(tree))
    }
    assert users == {"inspect"}
    assert "matplotlib" not in modules_after("import glassformer.inspect.views")


def test_what_is_inspected_is_plain_arrays() -> None:
    assert "torch" not in modules_after("import glassformer.inspect.alignment")


@pytest.mark.parametrize("page", sorted(PAGES), ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"[`(]([\w./-]*\w\.(?:py|yaml|md|json|toml))[`)#]", page.read_text())
    files = [name for name in named if "/" in name or name.endswith(".py")]
    places = (ROOT_FOLDER, PACKAGE, page.parent)
    assert [name for name in files if not any((place / name).exists() for place in places)] == []


def test_a_recipe_is_read_without_lightning() -> None:
    assert "lightning_fabric" not in modules_after("import glassformer.training.command")


# --- what is never used ---


def test_nothing_can_run_code_that_came_as_data(trees: Trees) -> None:
    assert [line for file, tree in trees.items() for line in forbidden(file, tree)] == []


@pytest.mark.parametrize(
    "line",
    [
        *("import pickle", "from pickle import loads", "torch.load(path)", "assert x"),
        *("eval(text)", "exec(text)", "from torch import load", "yaml.load(text)"),
        *("importlib.import_module(name)", "np.load(path)", "torch.jit.load(path)"),
        "load_dataset(name, trust_remote_code=True)",
    ],
)
def test_what_is_forbidden_would_be_noticed(line: str) -> None:
    assert forbidden("x.py", ast.parse(line))
    assert not forbidden("x.py", ast.parse("model.eval(); json.load(file); safetensors.load(x)"))


# --- how long, and how named ---


def test_no_sentence_ends_with_the_full_stop_of_another_one() -> None:
    """`wording.cause` takes it away."""
    ending = re.compile(r"\{(?:error|str\(error\))\}\.")
    assert {file for file, text in SOURCES.items() if ending.search(text)} == set()


def test_no_file_is_too_long() -> None:
    lengths = {file: len(text.splitlines()) for file, text in SOURCES.items()}
    assert {file: n for file, n in lengths.items() if n > MOST_LINES} == {}


def test_no_function_is_too_long(trees: Trees) -> None:
    found = {name for file, tree in trees.items() for name in long_functions(file, tree)}
    assert found == set()


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
    assert not [file for file in SOURCES if drawers & set(file.removesuffix(".py").split("/"))]


# --- how much there is, and into how many pieces it is cut ---

MOST_FILES, MOST_LINES_OF_ALL, MOST_IMPORTS, MOST_SINGLE_IMPORTERS = 290, 66_000, 0.07, 48


def test_the_house_can_be_seen_as_a_whole(trees: Trees) -> None:
    num_lines = sum(len(text.splitlines()) for text in SOURCES.values())
    import_lines = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    assert len(SOURCES) <= MOST_FILES
    assert num_lines <= MOST_LINES_OF_ALL
    assert import_lines <= MOST_IMPORTS * num_lines


def test_few_modules_exist_for_a_single_other_one(trees: Trees) -> None:
    modules = {f"glassformer.{file.removesuffix('.py').replace('/', '.')}" for file in SOURCES}
    importers: dict[str, set[str]] = {}
    for file, tree in trees.items():
        for name in imports(tree):
            module = name if name in modules else name.rpartition(".")[0]
            if module in modules:
                importers.setdefault(module, set()).add(file)
    assert sum(len(files) == 1 for files in importers.values()) <= MOST_SINGLE_IMPORTERS
