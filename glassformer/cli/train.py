"""glassformer train: from a file to a model."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from glassformer.cli import options
from glassformer.cli.inputs import count


def train(
    model: Annotated[
        str | None,
        typer.Argument(
            help="Which model: gpt, rnn-lm, bert, bag, rnn-classifier, classifier, tagger, "
            "translator, rnn-translator."
        ),
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
    reverse: Annotated[
        bool | None, typer.Option("--reverse", help="Translate from target to source.")
    ] = None,
    encoding: options.Encoding = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="gpt: nano, lecture, gpt2…gpt2-xl, modern-xs…modern-l; encoders: lecture, xs, s, "
            "m, bert-base, bert-large; translator: tiny, small, medium, base; "
            "recurrent: tiny (rnn-translator), small, medium."
        ),
    ] = None,
    cell: Annotated[
        Literal["rnn", "lstm", "gru"] | None,
        typer.Option(help="Of recurrent models; lstm, of rnn-translator gru."),
    ] = None,
    layers: Annotated[int | None, typer.Option(parser=count, help="How many layers.")] = None,
    bidirectional: Annotated[
        bool | None,
        typer.Option(
            "--bidirectional/--one-direction", help="Read from both ends (recurrent models)."
        ),
    ] = None,
    attention: Annotated[
        Literal["additive", "dot", "general", "none"] | None,
        typer.Option(help="How an rnn-translator looks at the source; additive."),
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
    own = {
        "model": "model.name",
        "preset": "model.preset",
        "cell": "model.cell",
        "layers": "model.num_layers",
        "bidirectional": "model.bidirectional",
        "attention": "model.attention",
        "source": "data.source_paths",
        "target": "data.target_paths",
        "valid_source": "data.validation_source_paths",
        "valid_target": "data.validation_target_paths",
        "source_column": "data.source_column",
        "target_column": "data.target_column",
        "reverse": "data.reverse",
        "tokenizer": "tokenizer.kind",
    }
    options.carry_out(options.request(locals(), own), dry_run, print_recipe, as_json)
