"""glassformer train: from a file to a model."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from glassformer.cli import options
from glassformer.cli.inputs import count


def train(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Which model: gpt, rnn-lm, bert, bag, rnn-classifier, classifier, tagger."
        ),
    ] = None,
    data: options.Data = None,
    validation_data: options.ValidationData = None,
    test_data: options.TestData = None,
    text_column: options.TextColumn = None,
    label_column: options.LabelColumn = None,
    encoding: options.Encoding = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="gpt: nano, lecture, gpt2…gpt2-xl, modern-xs…modern-l; encoders: lecture, xs, s, "
            "m, bert-base, bert-large; recurrent: small, medium."
        ),
    ] = None,
    cell: Annotated[
        Literal["rnn", "lstm", "gru"] | None, typer.Option(help="Of recurrent models; lstm.")
    ] = None,
    layers: Annotated[int | None, typer.Option(parser=count, help="How many layers.")] = None,
    bidirectional: Annotated[
        bool | None,
        typer.Option(
            "--bidirectional/--one-direction", help="Read from both ends (rnn-classifier)."
        ),
    ] = None,
    tokenizer: Annotated[
        Literal["auto", "char", "word", "bpe", "wordpiece", "unigram"] | None,
        typer.Option(help="The kind of vocabulary to learn."),
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
    recipe: Annotated[Path | None, typer.Option(help="A YAML file with all of this.")] = None,
    assignments: options.Assignments = None,
    resume: options.Resume = False,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    print_recipe: options.PrintRecipe = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a model on your own data, or go on with a run that stopped."""
    from glassformer.training.command import Request

    flags: dict[str, dict[str, Any]] = {
        "model": {
            "name": model,
            "preset": preset,
            "cell": cell,
            "num_layers": layers,
            "bidirectional": bidirectional,
        },
        "data": {
            "paths": data,
            "validation_paths": validation_data,
            "test_paths": test_data,
            "text_column": text_column,
            "label_column": label_column,
            "encoding": encoding,
        },
        "tokenizer": {"kind": tokenizer},
        "training": {
            "max_steps": max_steps,
            "num_train_epochs": num_train_epochs,
            "time_limit": time_limit,
            "optimizer": optimizer,
            "lr_scheduler_type": lr_scheduler_type,
            "ema": ema,
            "early_stopping": early_stopping,
            "seed": seed,
        },
    }
    request = Request(recipe, flags, assignments or [], out, resume, force)
    options.carry_out(request, dry_run, print_recipe, as_json)
