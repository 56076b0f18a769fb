"""The command line: one file per verb. Nothing heavy is imported before a verb runs."""

import os
import signal
import sys
import threading
from types import FrameType
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
from glassformer.cli.score import score
from glassformer.cli.tag import tag
from glassformer.cli.train import train
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

USES = (generate, score, classify, tag, fill)
for verb in (train, finetune, *USES, evaluate, compare, verify, doctor, demo):
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
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        app()
    except (GlassformerError, OSError) as error:  # OSError: the disk is full, and the like
        if os.environ.get("GLASSFORMER_DEBUG"):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(getattr(error, "exit_code", GlassformerError.exit_code))


def _stop(number: int, frame: FrameType | None) -> None:
    """Ctrl-C and SIGTERM end a verb with one word; a training has a handler of its own."""
    if _is_importing(frame):  # a half-imported module swallows it, or fails strangely: soon again
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
        return
    os.write(2, b"stopped.\n")  # a stream may be in the middle of a write
    sys.exit(128 + number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
