"""glassformer train: from a file to a model."""

from typing import Annotated

import typer

from glassformer.cli import options
from glassformer.cli.training_request import carry_out, request


def train(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Model to train, from the list below.")
    ] = None,
    data: options.Data = None,
    validation_data: options.ValidationData = None,
    test_data: options.TestData = None,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    source: options.Source = None,
    target: options.Target = None,
    valid_source: options.ValidSource = None,
    valid_target: options.ValidTarget = None,
    source_column: options.SourceColumn = None,
    target_column: options.TargetColumn = None,
    reverse: options.Reverse = None,
    encoding: options.Encoding = None,
    preset: options.Preset = None,
    cell: options.Cell = None,
    layers: options.Layers = None,
    bidirectional: options.Bidirectional = None,
    attention: options.Attention = None,
    tokenizer: options.Tokenizer = None,
    max_steps: options.MaxSteps = None,
    num_train_epochs: options.Epochs = None,
    time_limit: options.TimeLimit = None,
    optimizer: options.Optimizer = None,
    lr_scheduler_type: options.Scheduler = None,
    ema: options.Ema = None,
    early_stopping: options.EarlyStopping = None,
    seed: options.Seed = None,
    out: options.Out = None,
    recipe: options.RecipeFile = None,
    assignments: options.Assignments = None,
    resume: options.Resume = False,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    print_recipe: options.PrintRecipe = False,
    as_json: options.JsonResult = False,
) -> None:
    """Train a model on your own data, or continue a run.

    Examples:
      glassformer train gpt --data notes.txt
      glassformer train translator --source train.en --target train.fr --time-limit 15m
      glassformer train --resume --out runs/gpt-notes
    """
    carry_out(request(locals()), dry_run, print_recipe, as_json)
