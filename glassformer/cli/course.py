"""glassformer course: notebooks to read, run and fill in: list, start, check."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.options import argument, option, with_unit
from glassformer.cli.output import notify, print_json, print_result
from glassformer.cli.verb import Verb, Verbs
from glassformer.errors import GlassformerError
from glassformer.wording import cause, command, counted, joined, seconds_of


def list_notebooks(as_json: options.JsonObject = False) -> None:
    """List the notebooks of the course and their exercises.

    Examples:
      glassformer course list
      glassformer course list --json
    """
    from glassformer.course.checking import exercises_of
    from glassformer.course.notebook import notebook
    from glassformer.course.notebooks import NOTEBOOKS

    rows = []
    for name in NOTEBOOKS:
        tasks = {each.name: each.title for each in exercises_of(name)}
        rows.append(notebook(name).facts | {"name": name, "exercises": tasks})
    if as_json:
        return print_json({"notebooks": rows})
    for row in rows:
        minutes = counted(row["minutes"], "minute")
        typer.echo(f"{row['name']}: {row['title']} (lecture {row['lecture']}; {minutes})")
        for task, title in row["exercises"].items():
            typer.echo(f"  {task:<24}  {title}")
    notify(f"Begin with: {command('course', 'start', 'attention')}")
    return None


def start(
    name: Annotated[str, argument("NOTEBOOK", "Name of a notebook, as course list shows it.")],
    out: Annotated[Path, option("FOLDER", "Folder to write into.")] = Path(),
    force: Annotated[
        bool, option(None, "Replace a notebook that is there, with your work in it.", "--force")
    ] = False,
) -> None:
    """Write a notebook with its exercises, for Jupyter and as Markdown.

    Examples:
      glassformer course start attention
      glassformer course start gpt --out my-course
    """
    from glassformer.course.notebook import notebook
    from glassformer.files import write_file

    empty = notebook(name).without_solutions()
    files = {out / f"{name}.ipynb": empty.as_jupyter(), out / f"{name}.md": empty.as_markdown()}
    if not force and (there := [str(path) for path in files if path.exists()]):
        raise GlassformerError(
            f"there is already {joined(there)}, perhaps with your solutions. Pass another --out, "
            "or --force to start again."
        )
    out.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        write_file(path, text)
    notify(
        f"wrote {joined(map(str, files))}: the same notebook, for Jupyter (pip install jupyterlab, "
        f"or an editor such as VS Code) and as text. Then: {command('course', 'check', out / name)}"
        ".ipynb"
    )


def duration(text: str) -> str:
    """A time as it is typed, such as 90s or 5m."""
    try:
        if seconds_of(with_unit(text)) > 0:
            return text
    except ValueError as error:
        raise typer.BadParameter(f"{cause(error)}.") from None
    raise typer.BadParameter("a cell needs some time: pass, for example, 5m.")


def check(
    file: Annotated[Path, argument("FILE", "Notebook with your solutions: .ipynb or .md.")],
    time_limit: Annotated[
        str,
        option("TIME", "Longest time that a cell may take, such as 90s or 5m.", parser=duration),
    ] = "5m",
    as_json: options.JsonObject = False,
) -> None:
    """Run a notebook and say of each exercise: passed, or what is wrong, and a hint.

    Examples:
      glassformer course check attention.ipynb
      glassformer course check attention.md --time-limit 2m
    """
    from glassformer.course.notebook import read_notebook
    from glassformer.course.running import run_checks
    from glassformer.progress import ProgressLine

    if not file.is_file():
        cure = f"Write one with: {command('course', 'start', 'NAME')}"
        raise GlassformerError(f"{file} does not exist. {cure}")
    limit = seconds_of(time_limit)
    with ProgressLine(sys.stderr) as line:
        result = run_checks(
            read_notebook(file),
            file.parent,
            limit,
            lambda done, count: line.show(f"cell {done} of {count}" if done < count else ""),
        )
    print_result(result, as_json)
    if not result.is_passed:
        raise typer.Exit(1)


course = typer.Typer(
    cls=Verbs,
    help="Notebooks of a course on Transformers, with exercises that are checked.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
course.command("list", cls=Verb)(list_notebooks)
for verb in (start, check):
    course.command(cls=Verb)(verb)
