"""The program: all verbs together, exit codes, and errors without a traceback."""

import os
import sys
from typing import Annotated

import typer

from glassformer.cli.corpus import corpus
from glassformer.cli.course import course
from glassformer.cli.evaluate import compare, evaluate, report
from glassformer.cli.formats import export, import_model
from glassformer.cli.generate import caption, chat, complete, generate, score, translate
from glassformer.cli.inspect import explore, inspect, playground
from glassformer.cli.machine import doctor, plan
from glassformer.cli.output import note
from glassformer.cli.predict import classify, embed, fill, neighbours, tag
from glassformer.cli.train import (
    ListsData,
    ListsModels,
    ListsTasks,
    data,
    demo,
    finetune,
    train,
    verify,
)
from glassformer.cli.verb import ReadsLines, Verb, Verbs, heed_signals
from glassformer.errors import GlassformerError
from glassformer.machine import processes
from glassformer.wording import cause

app = typer.Typer(
    name="glassformer",
    cls=Verbs,
    help="Train Transformers and recurrent networks on your own data, use them, and look inside "
    "them. Run glassformer COMMAND --help for the options of a command, with examples.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # see cli/verb.py
    pretty_exceptions_enable=False,
)

app.command(cls=ListsModels)(train)
app.command(cls=ListsTasks)(finetune)
USES = (generate, chat, complete, score, translate, classify, tag, fill, embed, caption, neighbours)
app.command(cls=ListsData)(data)
EXAMINES = (inspect, explore, playground, report, evaluate, compare)
LINES = (chat, translate, tag, fill, embed)
for verb in (*USES, *EXAMINES, export, verify, plan, doctor, demo):
    app.command(cls=ReadsLines if verb in LINES else Verb)(verb)
app.command("import", cls=Verb)(import_model)  # a keyword of Python
app.add_typer(corpus, name="corpus")
app.add_typer(course, name="course")


def _show_version(wanted: bool) -> None:
    if wanted:
        from glassformer import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[
        bool, typer.Option(show_default=False, help="Show tracebacks of errors.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    if debug:
        os.environ["GLASSFORMER_DEBUG"] = "1"


def main() -> None:
    """Run a verb. An error that a user can fix is one sentence on stderr, not a traceback."""
    heed_signals()
    try:
        app()
    except (GlassformerError, OSError) as error:  # OSError: a full disk, for example
        if os.environ.get("GLASSFORMER_DEBUG"):
            raise
        if processes.is_first() or processes.is_joined():  # else the first process says the same
            note(*getattr(error, "__notes__", ()))  # what was detected in files before the error
            typer.echo(f"error: {_sentence(error)}", err=True)
        sys.exit(getattr(error, "exit_code", GlassformerError.exit_code))


def _sentence(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    place = "" if error.filename is None else f"{error.filename}: "
    return f"{place}{cause(error)}."
