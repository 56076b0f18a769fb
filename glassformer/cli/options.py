"""The options of verbs that share them or have many, and how their values are typed in a shell."""

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from glassformer.cli.model_table import known_task

_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\\": "\\"}


def count(text: str) -> int:
    """A positive whole number, also written 9e9."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer() or number < 1:
        raise typer.BadParameter(f"{text} is not a positive whole number.")
    return int(number)


def unescape(text: str) -> str:
    r"""`\n` is two characters when typed in a shell; here it means a line break."""
    return re.sub(r"\\[ntr\\]", lambda found: _ESCAPES[found[0]], text)


Text = str | None
Texts = list[str] | None
Whole = int | None
Number = float | None

COUNT = {"parser": count, "metavar": "N"}
_data = partial(typer.Option, rich_help_panel="Data")
_file = partial(_data, metavar="PATH")
_column = partial(_data, metavar="NAME")
_sampling = partial(typer.Option, rich_help_panel="Sampling")
_beams = partial(typer.Option, rich_help_panel="Beam search")
output = partial(typer.Option, rich_help_panel="Output")
_model = partial(typer.Option, rich_help_panel="Model")
_finetuning = partial(typer.Option, rich_help_panel="Fine-tuning")
_training = partial(typer.Option, rich_help_panel="Training")
_run = partial(typer.Option, rich_help_panel="Run")

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Run or model folder.")]

_paths = _file(help="File, folder or Hugging Face dataset (may be repeated).")
Data = Annotated[Texts, _paths]
DataToRead = Annotated[list[str], _paths]
ValidationData = Annotated[
    Texts, _file(help="Validation data (default: a part of --data is held out).")
]
TestData = Annotated[
    Texts, _file(help="Labelled data on which to evaluate the best model at the end.")
]
TextColumn = Annotated[
    Texts, _column(help="Column of a table that contains the text (may be repeated).")
]
LabelColumn = Annotated[
    Text, _column(help="Column of a table that contains the label or the tags.")
]
Source = Annotated[
    Texts, _file(help="File of sentences to translate, one per line (with --target).")
]
Target = Annotated[Texts, _file(help="File of their translations, one per line (with --source).")]
ValidSource = Annotated[Texts, _file(help="Source file for validation (with --valid-target).")]
ValidTarget = Annotated[Texts, _file(help="Target file for validation (with --valid-source).")]
SourceColumn = Annotated[
    Text, _column(help="Column of a table, or language of a .tmx file, to translate from.")
]
TargetColumn = Annotated[
    Text, _column(help="Column of a table, or language of a .tmx file, to translate to.")
]
Reverse = Annotated[bool | None, _data("--reverse", help="Translate from target to source.")]
Encoding = Annotated[Text, _column(help="Encoding of text files (default: utf-8).")]

JsonObject = Annotated[bool, output("--json", help="Print one JSON object.")]
JsonLines = Annotated[bool, output("--json", help="Print one JSON object per line.")]

Temperature = Annotated[
    Number,
    _sampling(metavar="X", help="Randomness: 0 is greedy, above 1 is more varied (default: 1.0)."),
]
TopK = Annotated[Whole, _sampling(**COUNT, help="Sample from the N likeliest tokens.")]
TopP = Annotated[
    Number,
    _sampling(metavar="P", help="Sample from the likeliest tokens with total probability P."),
]
MinP = Annotated[
    Number,
    _sampling(metavar="P", help="Sample from tokens at least P times as likely as the likeliest."),
]
RepetitionPenalty = Annotated[
    Number,
    _sampling(metavar="X", help="Make repeated tokens less likely if above 1 (default: 1.0)."),
]
SampleSeed = Annotated[Whole, _sampling(metavar="N", help="Random seed, for reproducible text.")]

NumBeams = Annotated[
    Whole, _beams(**COUNT, help="Number of beams; 1 means no beam search (default: 1).")
]
TranslationBeams = Annotated[
    Whole, _beams(**COUNT, help="Number of beams; 1 is greedy search (default: 5).")
]
LengthPenalty = Annotated[
    Number,
    _beams(
        metavar="X",
        help="Exponent of the length by which scores are divided; higher values favour longer "
        "texts (default: 1.0).",
    ),
]
NumBeamGroups = Annotated[
    Whole, _beams(**COUNT, help="Number of groups of diverse beams (default: 1).")
]
DiversityPenalty = Annotated[
    Number, _beams(metavar="X", help="Penalty for tokens that other groups chose (default: 0.5).")
]

MaxNewTokens = Annotated[
    Whole, output(**COUNT, help="Maximum number of tokens to generate (default: 200).")
]
Stop = Annotated[
    Texts,
    output(
        parser=unescape,
        metavar="TEXT",
        help=r"Stop before this text (\n is a line break; may be repeated).",
    ),
]
Prefix = Annotated[Text, output(metavar="TEXT", help="Text with which the translation must begin.")]
NoRepeatNgramSize = Annotated[Whole, output(**COUNT, help="Never repeat a sequence of N tokens.")]
NumReturnSequences = Annotated[
    Whole, output(**COUNT, help="Number of texts to print (default: 1).")
]
CopyUnknown = Annotated[
    bool | None,
    output(
        "--copy-unknown/--keep-unknown",
        help="Copy unknown words from the source, or keep the unknown token (default: copy).",
    ),
]
Top = Annotated[Whole, output(**COUNT, help="Print the N likeliest next tokens instead of a text.")]

Preset = Annotated[
    Text,
    _model(metavar="NAME", help="Preset of the model (default: chosen by the amount of data)."),
]
Cell = Annotated[
    Literal["rnn", "lstm", "gru"] | None,
    _model(help="Recurrent cell (default: depends on the model)."),
]
Layers = Annotated[Whole, _model(**COUNT, help="Number of layers (default: set by the preset).")]
Bidirectional = Annotated[
    bool | None,
    _model(
        "--bidirectional/--one-direction",
        help="Directions in which a recurrent model reads (default: bidirectional).",
    ),
]
Attention = Annotated[
    Literal["additive", "dot", "general", "none"] | None,
    _model(help="Attention of a recurrent translator (default: additive)."),
]
Tokenizer = Annotated[
    Literal["auto", "char", "word", "bpe", "wordpiece", "unigram"] | None,
    _model(help="Kind of tokenizer to train (default: auto)."),
]
Task = Annotated[
    str, _finetuning(parser=known_task, metavar="TASK", help="Task to learn, from the list below.")
]
Freeze = Annotated[bool | None, _finetuning("--freeze", help="Train only the new head.")]
FreezeLayers = Annotated[
    Whole, _finetuning(**COUNT, help="Freeze the embedding and the first N layers.")
]
LayerDecay = Annotated[
    Number,
    _finetuning(
        metavar="X",
        help="Learning rate of a layer relative to the layer above, e.g. 0.9 (default: 1.0).",
    ),
]
LoraRank = Annotated[
    Whole, _finetuning(**COUNT, help="Train only LoRA matrices of rank N, e.g. 8.")
]

MaxSteps = Annotated[
    Whole,
    _training(**COUNT, help="Number of training steps (default: chosen by the amount of data)."),
]
Epochs = Annotated[
    Number, _training(metavar="X", help="Number of passes over the data, instead of --max-steps.")
]
TimeLimit = Annotated[
    Text, _training(metavar="15m", help="Limit the number of steps to what fits in this time.")
]
Optimizer = Annotated[Literal["muon", "adamw"] | None, _training(help="Optimizer (default: muon).")]
Scheduler = Annotated[
    Literal["cosine", "linear", "wsd", "noam", "constant"] | None,
    _training(help="Learning rate schedule (default: linear)."),
]
Ema = Annotated[
    Number,
    _training(
        metavar="X",
        help="Decay of the moving average of the weights, e.g. 0.999 (default: depends on the "
        "task).",
    ),
]
EarlyStopping = Annotated[
    Whole, _training(**COUNT, help="Stop after N validations without improvement.")
]
Seed = Annotated[Whole, _training(metavar="N", help="Random seed (default: 0).")]

Out = Annotated[
    Path | None,
    _run(metavar="FOLDER", help="Folder of the run (default: runs/MODEL-DATA)."),
]
RecipeFile = Annotated[
    Path | None, _run(metavar="FILE", help="YAML file with these settings; options override it.")
]
Assignments = Annotated[
    Texts, _run("--set", metavar="KEY=VALUE", help="Set any key of the recipe (may be repeated).")
]
Resume = Annotated[bool, _run("--resume", help="Continue a run that was stopped.")]
Force = Annotated[
    bool,
    _run(
        "--force", help="Overwrite an existing run. With --resume: continue with changed settings."
    ),
]
DryRun = Annotated[bool, _run("--dry-run", help="Show what would happen; write nothing.")]
PrintRecipe = Annotated[
    bool, _run("--print-recipe", help="Print every key of the recipe with its value, and exit.")
]
JsonResult = Annotated[bool, _run("--json", help="Print the result as one JSON object.")]
