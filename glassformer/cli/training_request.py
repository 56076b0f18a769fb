"""What `train` and `finetune` do with their options: sort them into a recipe and carry it out."""

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.options import RECIPE, typed
from glassformer.cli.signals import heed_signals

if TYPE_CHECKING:
    from glassformer.config import Values
    from glassformer.training.command import Request


def carry_out(flags: "Values", values: Mapping[str, Any]) -> None:
    """Train, or only show what would be trained. `flags` are keys of the recipe that are given
    already, `values` those of the options."""
    began = time.time()
    from glassformer.runtime import processes
    from glassformer.training import command

    request = _request(flags, values, began)
    as_json = bool(values["as_json"])
    if values["print_recipe"]:
        typer.echo(command.recipe_text(request, as_json, sys.stderr), nl=False)
    elif values["dry_run"]:
        typer.echo(command.dry_run(request, as_json, sys.stderr))
    else:
        heed_signals(_message_if_stopped(request))
        outcome = command.train(request, sys.stderr)
        heed_signals()  # the first step is long past
        if processes.is_first():
            typer.echo(outcome.as_json() if as_json else outcome.summary())
        raise typer.Exit(outcome.exit_code)


def _request(flags: "Values", values: Mapping[str, Any], began: float) -> "Request":
    """The values of the options, sorted into the sections of a recipe."""
    from glassformer.training.command import Request

    names: dict[str, str] = {}
    for group in RECIPE:
        for option in group.parameters:
            value = values.get(option.name)
            if value is None:  # not passed, or an option of the other verb
                continue
            flags.setdefault(group.section, {})[option.name] = value
            on, _, off = typed(option).partition("/")
            names[f"{group.section}.{option.name}"] = off if value is False else on
    return Request(
        recipe=values.get("recipe"),
        flags=flags,
        assignments=values["assignments"] or [],
        out=values["out"],
        resume=bool(values["resume"]),
        force=bool(values["force"]),
        options=names,
        began=began,
    )


def _message_if_stopped(request: "Request") -> str:
    """For a signal before the first step; later ones are handled by the training itself."""
    if request.resume:
        return "stopped before the next step. Nothing is lost: run the same command to continue."
    again = "the same command" if request.force else "the same command with --resume"
    return f"stopped before the first step. Run {again} to start again."
