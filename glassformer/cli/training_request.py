"""What `train` and `finetune` do with their options: sort them into a recipe and carry it out."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.arguments import option
from glassformer.cli.signals import heed_signals

if TYPE_CHECKING:
    from glassformer.training.command import Request

ARGUMENTS = ("model", "start")  # which are no options

# The key of the recipe that each argument of a verb sets.
KEYS = {
    "model": "model.name",
    "layers": "model.num_layers",
    **{name: f"model.{name}" for name in ("preset", "cell", "bidirectional", "attention")},
    "data": "data.paths",
    "validation_data": "data.validation_paths",
    "test_data": "data.test_paths",
    "source": "data.source_paths",
    "target": "data.target_paths",
    "valid_source": "data.validation_source_paths",
    "valid_target": "data.validation_target_paths",
    **{name: f"data.{name}" for name in ("text_column", "label_column", "encoding")},
    **{name: f"data.{name}" for name in ("source_column", "target_column", "reverse")},
    "tokenizer": "tokenizer.kind",
    **{name: f"training.{name}" for name in ("max_steps", "num_train_epochs", "time_limit")},
    **{name: f"training.{name}" for name in ("optimizer", "lr_scheduler_type", "ema")},
    **{name: f"training.{name}" for name in ("early_stopping", "seed")},
    "start": "finetune.model",
    **{name: f"finetune.{name}" for name in ("freeze", "freeze_layers")},
    **{name: f"finetune.{name}" for name in ("layer_lr_decay", "lora_rank")},
}


def request(values: Mapping[str, Any], model: Mapping[str, Any] | None = None) -> "Request":
    """The arguments of `train` or `finetune`, by name, sorted into the sections of a recipe;
    `model` is the section of a model that is given."""
    from glassformer.training.command import Request

    flags: dict[str, dict[str, Any]] = {"model": dict(model or {})}
    names: dict[str, str] = {}
    for name, key in KEYS.items():
        if values.get(name) is None:  # not passed, or an option of the other verb
            continue
        section, _, last = key.partition(".")
        flags.setdefault(section, {})[last] = values[name]
        if name not in ARGUMENTS:
            names[key] = option(name)
    if values.get("bidirectional") is False:
        names["model.bidirectional"] = "--one-direction"
    return Request(
        recipe=values.get("recipe"),
        flags=flags,
        assignments=values["assignments"] or [],
        out=values["out"],
        resume=values["resume"],
        force=values["force"],
        options=names,
    )


def carry_out(request: "Request", dry_run: bool, print_recipe: bool, as_json: bool) -> None:
    """Train, or only show what would be trained."""
    from glassformer.training import command

    if print_recipe:
        typer.echo(command.recipe_text(request, as_json), nl=False)
    elif dry_run:
        typer.echo(command.dry_run(request, as_json))
    else:
        heed_signals(_message_if_stopped(request))
        outcome = command.train(request, sys.stderr)
        typer.echo(outcome.as_json() if as_json else outcome.summary())
        raise typer.Exit(outcome.exit_code)


def _message_if_stopped(request: "Request") -> str:
    """For a signal before the first step; later ones are handled by the training itself."""
    if request.resume:
        return "stopped before the next step. Nothing is lost: run the same command to continue."
    again = "the same command" if request.force else "the same command with --resume"
    return f"stopped before the first step. Run {again} to start again."
