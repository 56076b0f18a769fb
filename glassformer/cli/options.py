"""Options that several verbs share, and what `train` and `finetune` do with theirs."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from glassformer.cli.inputs import count
from glassformer.cli.stopping import heed_signals

if TYPE_CHECKING:
    from glassformer.training.command import Request

Data = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help="Files, folders or hub data sets; repeat."),
]
ValidationData = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help="Held-out data; else a part of --data is held out."),
]
TestData = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help="Labelled data to judge the best model by, at the end."),
]
TextColumn = Annotated[
    list[str] | None, typer.Option(help="The column of a table that holds the text; repeat.")
]
LabelColumn = Annotated[
    str | None, typer.Option(help="The column that holds the label or the tags.")
]
Source = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help="Of pairs in two files: the sentences to translate …"),
]
Target = Annotated[
    list[str] | None, typer.Option(metavar="PATH", help="… and their translations, line by line.")
]
ValidSource = Annotated[
    list[str] | None, typer.Option(metavar="PATH", help="The same, held out for validation.")
]
ValidTarget = Annotated[list[str] | None, typer.Option(metavar="PATH", help="Its translations.")]
SourceColumn = Annotated[
    str | None, typer.Option(help="The column, or language of a .tmx, to translate from.")
]
TargetColumn = Annotated[str | None, typer.Option(help="The one to translate to.")]
DataToRead = Annotated[
    list[str], typer.Option(metavar="PATH", help="Files, folders or hub data sets; repeat.")
]
EncodingToRead = Annotated[str, typer.Option(help="Of text files.")]
Encoding = Annotated[str | None, typer.Option(help="Of text files; utf-8 if not said.")]
MaxSteps = Annotated[int | None, typer.Option(parser=count, help="Updates of the weights.")]
Epochs = Annotated[float | None, typer.Option(help="Instead: times through the data.")]
TimeLimit = Annotated[
    str | None, typer.Option(metavar="15m", help="Plan no more steps than fit in this time.")
]
Optimizer = Annotated[
    Literal["muon", "adamw"] | None, typer.Option(help="How weights are moved; muon.")
]
Scheduler = Annotated[
    Literal["cosine", "linear", "wsd", "noam", "constant"] | None,
    typer.Option(help="How the learning rate falls; linear."),
]
Ema = Annotated[float | None, typer.Option(help="Keep a running mean of the weights, say 0.999.")]
EarlyStopping = Annotated[
    int | None, typer.Option(parser=count, help="Stop after N validations without a better one.")
]
Seed = Annotated[int | None, typer.Option(help="The same seed trains the same model.")]
Out = Annotated[Path | None, typer.Option(help="The run's folder.")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Any key: --set training.learning_rate=1e-3; repeat."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where the run stopped.")]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Start over, or with --resume: go on with changed training settings."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen; write nothing.")]
PrintRecipe = Annotated[bool, typer.Option("--print-recipe", help="Show every key with its value.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object at the end.")]


# Where the value of an option stands in a recipe.
KEYS = {
    "data": "data.paths",
    **{name: f"data.{name}" for name in ("text_column", "label_column", "encoding")},
    "validation_data": "data.validation_paths",
    "test_data": "data.test_paths",
    **{
        name: f"training.{name}"
        for name in (
            *("max_steps", "num_train_epochs", "time_limit", "optimizer", "lr_scheduler_type"),
            *("ema", "early_stopping", "seed"),
        )
    },
}


def request(
    said: Mapping[str, Any], own: Mapping[str, str], model: Mapping[str, Any] | None = None
) -> "Request":
    """What `train` or `finetune` was told, sorted into the sections of a recipe.

    `said` are all the arguments of the verb by their names, `own` the keys for those that the other
    verb does not have, and `model` the section of a model that is given.
    """
    from glassformer.training.command import Request

    flags: dict[str, dict[str, Any]] = {"model": dict(model or {})}
    names: dict[str, str] = {}
    for name, key in {**KEYS, **own}.items():
        section, _, field = key.partition(".")
        flags.setdefault(section, {})[field] = said[name]
        if name != "model":  # which is an argument
            names[key] = f"--{name.replace('_', '-')}"
    if said.get("bidirectional") is False:
        names["model.bidirectional"] = "--one-direction"
    return Request(
        recipe=said.get("recipe"),
        flags=flags,
        assignments=said["assignments"] or [],
        out=said["out"],
        resume=said["resume"],
        force=said["force"],
        options=names,
    )


def carry_out(request: "Request", dry_run: bool, print_recipe: bool, as_json: bool) -> None:
    """Train, or only say what would be trained."""
    from glassformer.training import command

    if print_recipe:
        typer.echo(command.recipe_text(request, as_json), nl=False)
    elif dry_run:
        typer.echo(command.dry_run(request, as_json))
    else:
        heed_signals(_last_words(request))
        outcome = command.train(request, sys.stderr)
        if outcome.task.recipe.test_paths:
            from glassformer.predict.final import tested

            outcome = tested(outcome, sys.stderr)
        typer.echo(outcome.as_json() if as_json else outcome.summary())
        raise typer.Exit(outcome.exit_code)


def _last_words(request: "Request") -> str:
    """If it is stopped before the first step; from then on, the training itself says how far it
    came."""
    if request.resume:
        return "stopped before another step. Nothing is lost: the same command goes on."
    again = "the same command" if request.force else "the same command and --resume"
    return f"stopped: nothing had been trained yet. Begin again with {again}."
