"""The verbs of runs: train, from data to a model; finetune, from a trained model to another task;
verify, whether a run is reproducible; and what one needs to try them: demo and data."""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli import options
from glassformer.cli.options import argument, count, option, switch
from glassformer.cli.output import notify, print_json, print_result
from glassformer.cli.verb import (
    HelpRows,
    Verb,
    check_preset,
    existing_model,
    existing_run,
    finetune_tasks,
    heed_signals,
    task_name,
)
from glassformer.data.built_in import SETS, write_built_in
from glassformer.models import MODELS, trainable
from glassformer.options import FinetuneOptions, TrainOptions
from glassformer.wording import capitalised

if TYPE_CHECKING:
    from glassformer.config import Values


class ListsModels(Verb):
    """A verb whose help lists the models that can be trained from scratch, with their presets."""

    def is_argument(self, value: str) -> bool:
        return value in MODELS and not Path(value).exists()

    def tables(self) -> dict[str, HelpRows]:
        return {"Models and their presets": [(name, _about(name)) for name in trainable()]}


class ListsTasks(Verb):
    """A verb whose help lists the tasks for which a trained model can get a new head."""

    def tables(self) -> dict[str, HelpRows]:
        rows = finetune_tasks().items()
        return {"Tasks": [(task, f"Needs a pre-trained {' or '.join(on)}.") for task, on in rows]}


def _about(name: str) -> str:
    row = MODELS[name]
    return f"{capitalised(row.about)}: {', '.join(row.presets)}."


class Run(options.Group, heading="Run"):
    out: Path | None = option("FOLDER", "Run folder (default: runs/MODEL-DATA).")
    recipe: Path | None = option("FILE", "YAML file with settings; options override it.")
    assignments: options.Strings = option(
        "KEY=VALUE", "Set any key of the recipe (may be repeated).", "--set"
    )
    resume: options.Flag = switch("--resume", "Continue a run that was stopped.")
    force: options.Flag = switch(
        "--force", "Overwrite an existing run. With --resume: continue with changed settings."
    )
    dry_run: options.Flag = switch("--dry-run", "Show what would happen; write nothing.")
    print_recipe: options.Flag = switch(
        "--print-recipe", "Print every key of the recipe with its value, and exit."
    )
    as_json: options.Flag = switch("--json", "Print the result as one JSON object.")


@options.takes(options.recipe_options(TrainOptions), Run)
def train(
    model: Annotated[str | None, argument("MODEL", "Model to train, from the list below.")] = None,
    **values: Any,
) -> None:
    """Train a model, train one further, or continue a run.

    Examples:
      glassformer train gpt --data notes.txt
      glassformer train translator --source train.en --target train.fr --time-limit 15m
      glassformer train --from runs/gpt-notes --data letters.txt
    """
    if model is not None:
        check_preset(model, values.get("preset"))
    _carry_out({"model": {"name": model}}, values)


@options.takes(options.recipe_options(FinetuneOptions), Run, without="recipe")
def finetune(
    model: Annotated[
        Path,
        argument(
            "MODEL",
            "Pre-trained model: run or model folder, Hugging Face folder or name on the hub.",
            callback=existing_model,
        ),
    ],
    task: Annotated[
        str,
        option(
            "TASK",
            "Task to learn, from the list below.",
            parser=task_name,
            rich_help_panel="Fine-tuning",
        ),
    ],
    **values: Any,
) -> None:
    """Train a pre-trained model for a new task.

    The model gets a new head, and both are trained on labelled data.

    Examples:
      glassformer finetune runs/bert --task classify --data reviews.csv
      glassformer finetune runs/gpt --task tag --data train.conll --lora-rank 8
      glassformer finetune runs/image-gpt --task probe --data images/
    """
    from glassformer.training.finetuning import on_top_of

    _carry_out(on_top_of(model, task), values)


def _carry_out(sections: "Values", values: Mapping[str, Any]) -> None:
    """Train, or only show what would be trained. `sections` of the recipe are given already,
    `values` are those of the options."""
    began = time.time()
    from glassformer.machine import processes
    from glassformer.training import command

    run = {name: values[name] for name in ("recipe", "out", "resume", "force") if name in values}
    request = command.request(sections, values, values.get("assignments", ()), **run, began=began)
    as_json = "as_json" in values
    if "print_recipe" in values:
        typer.echo(command.recipe_text(request, as_json, sys.stderr), nl=False)
    elif "dry_run" in values:
        typer.echo(command.dry_run(request, as_json, sys.stderr))
    else:
        heed_signals(_message_if_stopped(request.resume, request.force))
        outcome = command.train(request, sys.stderr)
        heed_signals()  # the first step is long past
        if processes.is_first():
            typer.echo(outcome.as_json() if as_json else outcome.summary())
        raise typer.Exit(outcome.exit_code)


def _message_if_stopped(resumes: bool, forces: bool) -> str:
    """For a signal before the first step; later ones are handled by the training itself."""
    if resumes:
        return "stopped before the next step. Nothing is lost: run the same command to continue."
    again = "the same command" if forces else "the same command with --resume"
    return f"stopped before the first step. Run {again} to start again."


# --- verify ---


def verify(
    run: Annotated[Path, argument("RUN", "Run to verify.", callback=existing_run)],
    as_json: options.JsonObject = False,
) -> None:
    """Check that a run is reproducible.

    Trains the last interval again and compares weights and state bit by bit.

    Examples:
      glassformer verify runs/gpt-notes
      glassformer verify runs/gpt-notes --json
    """
    from glassformer.training.run_folder import RunFolder
    from glassformer.training.verify import verify as replay

    verdict = replay(RunFolder(run), sys.stderr)
    print_result(verdict, as_json)
    raise typer.Exit(0 if verdict.identical else 1)


# --- demo ---


def demo(
    out: Annotated[Path, option("FOLDER", "Run folder.")] = Path("runs/demo"),
    max_steps: Annotated[int | None, count("Number of training steps (default: 600).")] = None,
    force: Annotated[bool, switch("--force", "Train again from the start.")] = False,
    as_json: Annotated[bool, switch("--json", "Print the result as one JSON object.")] = False,
) -> None:
    """Train a small GPT on Python's manual, then generate text.

    Examples:
      glassformer demo
      glassformer demo --max-steps 100 --out runs/short-demo
    """
    from glassformer.demo import show_demo, train_demo

    stream = sys.stderr if as_json else sys.stdout
    outcome = train_demo(out, max_steps, force, stream)
    if outcome is not None and outcome.stopped_by is not None:
        typer.echo(outcome.summary())
        raise typer.Exit(outcome.exit_code)
    result = show_demo(out, stream)
    if as_json:
        print_json(result)


# --- data ---


class ListsData(Verb):
    """A verb whose help lists the built-in data."""

    def tables(self) -> dict[str, HelpRows]:
        return {"Data": [(name, f"{capitalised(row.about)}.") for name, row in SETS.items()]}


def data(
    name: Annotated[str, argument("NAME", "Data to write, from the list below.")],
    out: Annotated[Path, option("FOLDER", "Folder to write.")],
    count: Annotated[int | None, count("Number of drawn scenes (default: 2000).")] = None,
    seed: Annotated[int | None, option("N", "Random seed (default: 0).", min=0)] = None,
    force: Annotated[bool, switch("--force", "Replace an existing folder.")] = False,
) -> None:
    """Write built-in images into a folder, to try models on.

    Examples:
      glassformer data digits --out digits
      glassformer data shapes --out shapes --count 2000
    """
    written = write_built_in(name, out, count, seed, force)
    notify(f"{out}: {written}")
