"""glassformer train: from a file to a model."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from glassformer.cli.inputs import count


def train(
    model: Annotated[str | None, typer.Argument(help="Which model: gpt.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Files, folders or hub data sets; repeat."),
    ] = None,
    validation_data: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="Held-out text; else a part of --data is held out."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="nano, lecture, gpt2…gpt2-xl, modern-xs…modern-l.")
    ] = None,
    tokenizer: Annotated[
        Literal["auto", "char", "word", "bpe", "wordpiece", "unigram"] | None,
        typer.Option(help="The kind of vocabulary to learn."),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(parser=count, help="Updates of the weights.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(metavar="15m", help="Plan no more steps than fit in this time.")
    ] = None,
    optimizer: Annotated[
        Literal["muon", "adamw"] | None, typer.Option(help="How weights are moved; muon.")
    ] = None,
    lr_scheduler_type: Annotated[
        Literal["cosine", "linear", "wsd", "noam", "constant"] | None,
        typer.Option(help="How the learning rate falls; linear."),
    ] = None,
    ema: Annotated[
        float | None, typer.Option(help="Keep a running mean of the weights, say 0.999.")
    ] = None,
    early_stopping: Annotated[
        int | None,
        typer.Option(parser=count, help="Stop after N validations without a better one."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed trains the same model.")] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.")] = None,
    text_column: Annotated[
        list[str] | None, typer.Option(help="The column of a table that holds the text; repeat.")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Of text files; utf-8 if not said.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="A YAML file with all of this.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any key: --set training.learning_rate=1e-3; repeat."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run stopped.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Start over, or with --resume: go on with changed training settings."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen; write nothing.")
    ] = False,
    print_recipe: Annotated[
        bool, typer.Option("--print-recipe", help="Show every key with its value.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
) -> None:
    """Train a model on your own text, or go on with a run that stopped."""
    from glassformer.training import command

    flags: dict[str, dict[str, Any]] = {
        "model": {"name": model, "preset": preset},
        "data": {
            "paths": data,
            "validation_paths": validation_data,
            "text_column": text_column,
            "encoding": encoding,
        },
        "tokenizer": {"kind": tokenizer},
        "training": {
            "max_steps": max_steps,
            "time_limit": time_limit,
            "optimizer": optimizer,
            "lr_scheduler_type": lr_scheduler_type,
            "ema": ema,
            "early_stopping": early_stopping,
            "seed": seed,
        },
    }
    request = command.Request(recipe, flags, assignments or [], out, resume, force)
    if print_recipe:
        typer.echo(command.recipe_text(request, as_json), nl=False)
    elif dry_run:
        typer.echo(command.dry_run(request, as_json))
    else:
        outcome = command.train(request, sys.stderr)
        typer.echo(outcome.as_json() if as_json else outcome.summary())
        raise typer.Exit(outcome.exit_code)
