"""glassformer finetune: teach a trained model something new."""

from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.training_request import carry_out, request


def finetune(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Run or model folder of a pre-trained model.")
    ],
    task: options.Task,
    data: options.Data = None,
    validation_data: options.ValidationData = None,
    test_data: options.TestData = None,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.Encoding = None,
    freeze: options.Freeze = None,
    freeze_layers: options.FreezeLayers = None,
    layer_lr_decay: options.LayerDecay = None,
    lora_rank: options.LoraRank = None,
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
    as_json: options.JsonResult = False,
) -> None:
    """Train a pre-trained model for a new task.

    The model gets a new head, and both are trained on labelled data.

    Examples:
      glassformer finetune runs/bert --task classify --data reviews.csv
      glassformer finetune runs/gpt --task tag --data train.conll --lora-rank 8
    """
    values = {**locals(), "start": str(model)}
    del values["model"]

    from glassformer.training.finetuning import on_top_of

    carry_out(request(values, on_top_of(model, task)), dry_run, print_recipe, as_json)
