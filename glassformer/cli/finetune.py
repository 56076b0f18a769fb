"""glassformer finetune: teach a trained model something new."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from glassformer.cli import options
from glassformer.cli.inputs import count


def finetune(
    model: Annotated[Path, typer.Argument(help="The run of a bert or a gpt.")],
    task: Annotated[
        Literal["classify", "tag"], typer.Option(help="Label whole texts, or every word.")
    ],
    data: options.Data = None,
    validation_data: options.ValidationData = None,
    test_data: options.TestData = None,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.Encoding = None,
    freeze: Annotated[
        bool | None, typer.Option("--freeze", help="Only the new head learns.")
    ] = None,
    freeze_layers: Annotated[
        int | None, typer.Option(parser=count, help="The embedding and N first layers stay.")
    ] = None,
    layer_lr_decay: Annotated[
        float | None, typer.Option(help="Each layer learns this much slower than the next, say 0.9")
    ] = None,
    lora_rank: Annotated[
        int | None, typer.Option(parser=count, help="Learn low-rank changes only, say 8.")
    ] = None,
    max_steps: options.MaxSteps = None,
    num_train_epochs: options.Epochs = None,
    time_limit: options.TimeLimit = None,
    optimizer: options.Optimizer = None,
    lr_scheduler_type: options.Scheduler = None,
    ema: options.Ema = None,
    early_stopping: options.EarlyStopping = None,
    seed: options.Seed = None,
    out: options.Out = None,
    assignments: options.Assignments = None,
    resume: options.Resume = False,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    print_recipe: options.PrintRecipe = False,
    as_json: options.AsJson = False,
) -> None:
    """Give a trained bert or gpt a new head, and train both on labelled data."""
    from glassformer.training.command import on_top_of

    names = ("model", "freeze", "freeze_layers", "layer_lr_decay", "lora_rank")
    own = {name: f"finetune.{name}" for name in names}
    request = options.request(locals() | {"model": str(model)}, own, on_top_of(model, task))
    options.carry_out(request, dry_run, print_recipe, as_json)
