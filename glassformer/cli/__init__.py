"""The command line: one file per verb. Nothing heavy is imported before a verb runs."""

import os
import sys
from typing import Annotated

import typer

from glassformer.cli.classify import classify
from glassformer.cli.compare import compare
from glassformer.cli.demo import demo
from glassformer.cli.doctor import doctor
from glassformer.cli.evaluate import evaluate
from glassformer.cli.fill import fill
from glassformer.cli.finetune import finetune
from glassformer.cli.generate import generate
from glassformer.cli.inspect import inspect
from glassformer.cli.score import score
from glassformer.cli.stopping import heed_signals
from glassformer.cli.tag import tag
from glassformer.cli.train import train
from glassformer.cli.translate import translate
from glassformer.cli.verb import Verb
from glassformer.cli.verify import verify
from glassformer.errors import GlassformerError

app = typer.Typer(
    name="glassformer",
    help="Every Transformer of the lecture hall as real software: train it, use it, look inside.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: drawing boxes takes longer than all the rest
    pretty_exceptions_enable=False,
)

USES = (generate, score, translate, classify, tag, fill)
for verb in (train, finetune, *USES, inspect, evaluate, compare, verify, doctor, demo):
    app.command(cls=Verb)(verb)


def _show_version(wanted: bool) -> None:
    if wanted:
        from glassformer import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option(help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    if debug:
        os.environ["GLASSFORMER_DEBUG"] = "1"


def main() -> None:
    """Run a verb. What a user can mend is one sentence on stderr, not a traceback."""
    heed_signals()
    try:
        app()
    except (GlassformerError, OSError) as error:  # OSError: the disk is full, and the like
        if os.environ.get("GLASSFORMER_DEBUG"):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(getattr(error, "exit_code", GlassformerError.exit_code))
