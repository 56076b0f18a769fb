"""The site: Sphinx, furo and MyST. `make docs` builds it, `make course` runs its notebooks first.

docs/*.md                     the pages
glassformer/course/notebooks  the notebooks, copied to docs/course/notebooks
the command line              the page of all commands
"""

import ast
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

import glassformer
from glassformer.course.checking import exercises_of
from glassformer.course.notebook import SOLUTION, Notebook, notebook
from glassformer.course.notebooks import NOTEBOOKS

HERE = Path(__file__).parent
ROOT = HERE.parent

project, author, copyright = "glassformer", "the glassformer authors", "the glassformer authors"
version = release = glassformer.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = "glassformer"
html_static_path = ["_static"]
html_css_files, html_js_files = ["site.css"], [("site.js", {"defer": "defer"})]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # it would fetch the pages, which a page from disk may not
html_math_renderer = "mathml"
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "a11y-high-contrast-light", "a11y-high-contrast-dark"

autodoc_typehints = "none"
autodoc_member_order = "bysource"

# Notebooks run only in `make course`, which keeps what they print and draw. Other builds show that,
# of notebooks whose code is the same since.
EXECUTED = ROOT / "build" / "notebooks"
is_course = bool(os.environ.get("GLASSFORMER_RUN_NOTEBOOKS"))
nb_execution_mode = "cache"
nb_execution_cache_path = str(EXECUTED)
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_merge_streams = True
nb_output_stderr = "remove"
nb_code_prompt_show = "Show the solution"
nb_code_prompt_hide = "Hide the solution"


def code_digest(name: str) -> str:
    code = [cell.text for cell in notebook(name).cells if cell.is_code]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()


def was_executed(name: str) -> bool:
    stamp = EXECUTED / f"{name}.sha256"
    return stamp.is_file() and stamp.read_text() == code_digest(name)


unexecuted = [name for name in NOTEBOOKS if not (is_course or was_executed(name))]
nb_execution_excludepatterns = [f"course/notebooks/{name}.md" for name in unexecuted]


def note_executed(app: Sphinx, error: Exception | None) -> None:
    if is_course and not error:
        for name in NOTEBOOKS:
            (EXECUTED / f"{name}.sha256").write_text(code_digest(name))


# --- mathematics: MathML, which browsers draw without scripts, fonts or a network ---


def _mathml(node: Any, display: str) -> str:
    return convert(node.astext().strip(), display=display)


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{_mathml(node, "block")}</div>')
    raise nodes.SkipNode


# --- pages that are written by the build ---


def write_notebooks() -> None:
    """The notebooks with their solutions folded away, and the page that lists them."""
    folder = HERE / "course" / "notebooks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = ["# Notebooks", "", NOTEBOOK_NOTE, "", "| notebook | lecture | minutes | exercises |"]
    lines.append("|---|---|---|---|")
    for name in NOTEBOOKS:
        facts = notebook(name).facts
        names = ", ".join(f"`{each.name}`" for each in exercises_of(name))
        link = f"[{facts['title']}]({name}.md)"
        lines.append(f"| {link} | {facts['lecture']} | {facts['minutes']} | {names} |")
        text = _with_folded_solutions(notebook(name)).as_markdown()
        (folder / f"{name}.md").write_text(text)
    toctree = ["", "```{toctree}", ":hidden:", "", *NOTEBOOKS, "```", ""]
    (folder / "index.md").write_text("\n".join([*lines, *toctree]))


def _with_folded_solutions(notebook: Notebook) -> Notebook:
    header = f"{notebook.header}{MYST_HEADER}"
    cells = [
        replace(cell, options=FOLDED) if SOLUTION.search(cell.text) else cell
        for cell in notebook.cells
    ]
    return replace(notebook, header=header, cells=tuple(cells))


MYST_HEADER = """\
file_format: mystnb
kernelspec: {name: python3}
language_info: {name: python, pygments_lexer: python}
"""
FOLDED = ":tags: [hide-input]\n"
NOTEBOOK_NOTE = """\
`glassformer course start NAME` writes a notebook for Jupyter and as Markdown, with exercises to
fill in; open it in Jupyter (`pip install jupyterlab`) or in an editor such as VS Code. In the
notebook, `check` says at once whether a solution passed, or what is wrong and a hint;
`glassformer course check NAME.ipynb` runs the whole notebook and says it of every exercise."""


def write_ready_pages() -> None:
    """The pages of trained models that `ready.py` has written, if it has."""
    facts = json.loads(file.read_text()) if (file := READY / "pages.json").is_file() else []
    lines = ["# Ready pages", "", READY_NOTE if facts else NO_READY_NOTE, ""]
    for page in facts:
        lines += [f'- <a href="{page["file"]}">{page["title"]}</a>: {page["text"]}']
    (HERE / "pages.md").write_text("\n".join(lines) + "\n")


READY = ROOT / "build" / "pages"
READY_NOTE = """\
Pages of models that were trained for this site. Each is one file that works offline: open it, point
at a number, type a text of your own where the page carries the model."""
NO_READY_NOTE = """\
This build of the site has no pages of trained models: `make course` trains the models and adds
them. `make demo` writes one of your own in two minutes."""
html_extra_path = [str(READY)] if READY.is_dir() else []


def write_commands() -> None:
    """The help of every command."""
    import typer

    from glassformer.cli.main import app

    group: Any = typer.main.get_command(app)
    lines = [
        "# All commands",
        "",
        "The help of each command, as `glassformer COMMAND --help` prints it.",
    ]
    for name, command in sorted(group.commands.items()):
        for words, each in _with_subcommands(name, command):
            context = typer.Context(each, info_name=f"glassformer {words}", terminal_width=100)
            lines += ["", f"## {words}", "", "```text", each.get_help(context).strip(), "```"]
    (HERE / "commands.md").write_text("\n".join(lines) + "\n")


def _with_subcommands(name: str, command: Any) -> list[tuple[str, Any]]:
    inner = getattr(command, "commands", {})
    return [(f"{name} {each}", inner[each]) for each in inner] or [(name, command)]


def write_llms(app: Sphinx, error: Exception | None) -> None:
    """llms.txt: a list of the pages, for programs that read the site."""
    if error or app.builder.name != "html":
        return
    titles = {name: node.astext() for name, node in app.env.titles.items()}
    lines = [f"# {project}", "", "> " + SUMMARY, "", "## Pages", ""]
    lines += [f"- [{titles[name]}]({name}.html)" for name in sorted(titles)]
    (Path(app.outdir) / "llms.txt").write_text("\n".join(lines) + "\n")


SUMMARY = (
    "Every Transformer taught in university courses, as software: train it, use it, look inside it."
)


# --- links that lead elsewhere on the site than in the repository ---

ELSEWHERE = {"../benchmarks/RESULTS.md": "results.md", "../CHANGELOG.md": "changelog.md"}


def redirect(app: Sphinx, page: str, source: list[str]) -> None:
    for old, new in ELSEWHERE.items():
        source[0] = source[0].replace(f"]({old}", f"]({new}")


# --- the code that a page of a lecture names, below the fields of each section ---

CODE_FIELD = re.compile(r"^- \*\*Code:\*\* (.*)$", re.MULTILINE)
MOST_LINES = 60  # of code that is shown


def show_code(app: Sphinx, page: str, source: list[str]) -> None:
    if page.startswith("course/lecture-"):
        source[0] = re.sub(r"(?:^- \*\*.*\n)+", _with_code, source[0], flags=re.MULTILINE)


def _with_code(fields: re.Match[str]) -> str:
    named = CODE_FIELD.search(fields[0])
    places = re.findall(r"`([\w/]+\.py):([\w.]+)`", named[1]) if named else []
    shown = [_folded(*place) for place in places if _length(*place) <= MOST_LINES]
    return "\n".join([fields[0], *shown])


def _folded(file: str, symbol: str) -> str:
    return f"""
<details class="code"><summary><code>{symbol}</code> in {file}</summary>

```{{literalinclude}} ../../{file}
:pyobject: {symbol}
```

</details>
"""


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def _length(file: str, symbol: str) -> float:
    """The lines of a function or class; without end if it is none."""
    body: Sequence[ast.stmt] = _tree(file).body
    found: Any = None
    for name in symbol.split("."):
        found = next((each for each in body if getattr(each, "name", None) == name), None)
        body = getattr(found, "body", [])
    return math.inf if found is None else found.end_lineno - found.lineno


def give_captions_a_level(app: Sphinx, page: str, template: str, context: Any, tree: Any) -> None:
    """The captions of the sidebar are headings, which need a level."""
    if tree := context.get("furo_navigation_tree"):
        with_level = tree.replace('role="heading"', 'role="heading" aria-level="2"')
        context["furo_navigation_tree"] = with_level


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", give_captions_a_level, priority=900)
    app.connect("source-read", redirect)
    app.connect("source-read", show_code)
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    write_notebooks()
    write_commands()
    write_ready_pages()
    app.connect("build-finished", write_llms)
    app.connect("build-finished", note_executed)
