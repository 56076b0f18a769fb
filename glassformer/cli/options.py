"""The options that verbs share, or of which they have many, in groups with a heading in the help.

A verb takes a whole group by `@takes(Group)` and receives the values as keyword arguments, by name.
"""

import re
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature, get_annotations, signature
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import typer

from glassformer.cli.known_names import known_model, known_task
from glassformer.durations import has_no_unit

_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\\": "\\"}

Verb = TypeVar("Verb", bound=Callable[..., None])

Text = str | None
Texts = list[str] | None
Whole = int | None
Number = float | None
Flag = bool | None


def positive(text: str) -> int:
    """A positive whole number, also written 9e9."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number.is_integer() or number < 1:
        raise typer.BadParameter(f"{text} is not a positive whole number.")
    return int(number)


def with_unit(text: str) -> str:
    """A time limit as it is typed. In a recipe a number is seconds; here it may mean minutes."""
    if has_no_unit(text):
        raise typer.BadParameter(f"{text} what? Pass --time-limit {text}m or {text}s.")
    return text


def unescape(text: str) -> str:
    r"""`\n` is two characters when typed in a shell; here it means a line break."""
    return re.sub(r"\\[ntr\\]", lambda found: _ESCAPES[found[0]], text)


def option(metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """Named after its parameter (num_beams is --num-beams), unless names are given."""
    return typer.Option(..., *names, metavar=metavar, help=help, **more)


def count(help: str, *names: str, **more: Any) -> Any:
    return option("N", help, *names, parser=positive, **more)


def switch(names: str, help: str, **more: Any) -> Any:
    """An option without a value: `--on`, or `--on/--off`."""
    return option(None, help, names, **more)


class Group:
    """Options under one heading. In a recipe, they are keys of `section` with the same names."""

    section: ClassVar[str]
    parameters: ClassVar[list[Parameter]]

    def __init_subclass__(cls, heading: str, section: str = "") -> None:
        cls.section, cls.parameters = section, []
        for name, kind in get_annotations(cls).items():
            if (info := getattr(cls, name)) is not None:  # else the type brings it
                info.rich_help_panel = heading
                kind = Annotated[kind, info]
            one = Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            cls.parameters.append(one)


def typed(option: Parameter) -> str:
    """As it is typed in a shell: --max-steps, or --on/--off."""
    names = option.annotation.__metadata__[0].param_decls
    return str(names[0]) if names else f"--{option.name.replace('_', '-')}"


def takes(*groups: type[Group], without: str = "") -> Callable[[Verb], Verb]:
    """Give a verb the options of these groups, after its positional parameters and before its
    keyword-only ones. It receives their values by name, None if they were not passed."""

    def with_options(verb: Verb) -> Verb:
        own = signature(verb).parameters.values()
        first = [each for each in own if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        last = [each for each in own if each.kind is Parameter.KEYWORD_ONLY]
        options = [each for group in groups for each in group.parameters if each.name != without]
        verb.__dict__["__signature__"] = Signature([*first, *options, *last])
        return verb

    return with_options


def argument(metavar: str, help: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=help, **more)


_data = partial(option, rich_help_panel="Data")
output = partial(option, rich_help_panel="Output")
_json = partial(switch, "--json", rich_help_panel="Output")

Quantize = Annotated[
    Literal["int8"] | None,
    option("int8", "Round the weights of linear layers to 8 bits, for speed on a CPU."),
]
Model = Annotated[
    Path,
    argument(
        "MODEL",
        "Run or model folder, Hugging Face folder, GGUF file or name on the hub.",
        callback=known_model,
    ),
]

_paths = _data("PATH", "Files, folders, archives, patterns or Hugging Face datasets.", "--data")
Data = Annotated[Texts, _paths]
DataToRead = Annotated[list[str], _paths]
Source = Annotated[
    Texts,
    _data("PATH", "File of sentences to translate, one per line (with --target).", "--source"),
]
Target = Annotated[
    Texts, _data("PATH", "File of translations, one per line (with --source).", "--target")
]
SourceColumn = Annotated[
    Text, _data("NAME", "Column of a table, or language of a .tmx file, to translate from.")
]
TargetColumn = Annotated[
    Text, _data("NAME", "Column of a table, or language of a .tmx file, to translate to.")
]
TextColumn = Annotated[
    Texts, _data("NAME", "Column of a table that contains the text (may be repeated).")
]
LabelColumn = Annotated[
    Text,
    _data("NAME", "Column of the label or the tags; columns of 0 and 1, separated by commas."),
]
ImageColumn = Annotated[
    Text, _data("NAME", "Column of a table that contains the images or their paths.")
]
Encoding = Annotated[
    Text, _data("NAME", "Encoding of files that are not valid UTF-8 (default: detected).")
]

_top = "Print the N most likely next tokens instead of a text."
Top = Annotated[Whole, count(_top, rich_help_panel="Output")]
JsonObject = Annotated[bool, _json("Print one JSON object.")]
JsonLines = Annotated[bool, _json("Print one JSON object per line.")]
ForceFolder = Annotated[
    bool, switch("--force", "Overwrite an existing folder.", rich_help_panel="Output")
]

_tokens = "Maximum number of tokens in a translation (default: from the training data)."
MaxTranslationTokens = Annotated[Whole, count(_tokens, rich_help_panel="Output")]

Picture = Annotated[
    Path | None,
    output("FILE", "File for the images; its extension sets the format: .png, .svg or .json."),
]

_new = partial(option, rich_help_panel="Fine-tuning")
Task = Annotated[str, _new("TASK", "Task to learn, from the list below.", parser=known_task)]


class Sampling(Group, heading="Sampling"):
    temperature: Number = option(
        "X", "Sampling temperature; 0 is greedy, higher is more random (default: 1.0)."
    )
    top_k: Whole = count("Sample from the N most likely tokens.")
    top_p: Number = option("P", "Sample from the most likely tokens with total probability P.")
    min_p: Number = option(
        "P", "Sample from tokens at least P times as likely as the most likely one."
    )
    repetition_penalty: Number = option(
        "X", "Penalty for repeated tokens; above 1 makes them less likely (default: 1.0)."
    )
    seed: Whole = option("N", "Random seed, for reproducible text.")


class Beams(Group, heading="Beam search"):
    num_beams: Whole = count("Number of beams; 1 means no beam search (default: 1).")
    length_penalty: Number = option(
        "X",
        "Divide scores by length to the power of X; higher values favour longer texts "
        "(default: 1.0).",
    )


class TranslationBeams(Group, heading="Beam search"):
    num_beams: Whole = count("Number of beams; 1 is greedy search (default: 5).")
    length_penalty: Number = Beams.length_penalty
    num_beam_groups: Whole = count("Number of beam groups, for diverse beam search (default: 1).")
    diversity_penalty: Number = option(
        "X", "Penalty for tokens that other groups chose (default: 0.5)."
    )


class Writing(Group, heading="Output"):
    max_new_tokens: Whole = count("Maximum number of tokens to generate (default: 200).")
    no_repeat_ngram_size: Whole = count("Never repeat a sequence of N tokens.")
    num_return_sequences: Whole = count("Number of texts to print (default: 1).")
    stop: Texts = option(
        "TEXT", r"Stop before this string (\n is a line break; may be repeated).", parser=unescape
    )


class Translations(Group, heading="Output"):
    max_new_tokens: MaxTranslationTokens = None
    num_return_sequences: Whole = Writing.num_return_sequences
    no_repeat_ngram_size: Whole = Writing.no_repeat_ngram_size
    prefix: Text = option("TEXT", "Text that the translation must start with.")
    copy_unknown: Flag = switch(
        "--copy-unknown/--keep-unknown",
        "Copy unknown words from the source, or keep the unknown token (default: copy).",
    )


class CaptionBeams(Group, heading="Beam search"):
    num_beams: Whole = count("Number of beams; 1 is greedy search (default: 4).")
    length_penalty: Number = Beams.length_penalty


class Captions(Group, heading="Output"):
    max_new_tokens: Whole = count(
        "Maximum number of tokens in a caption (default: as in the longest training caption)."
    )
    num_return_sequences: Whole = count("Number of captions of each image (default: 1).")
    no_repeat_ngram_size: Whole = Writing.no_repeat_ngram_size


class Examples(Group, heading="Data", section="data"):
    paths: Data = None
    validation_paths: Texts = option(
        "PATH", "Validation data (default: a part of --data is held out).", "--validation-data"
    )
    test_paths: Texts = option(
        "PATH", "Labelled data to evaluate the best model on, at the end.", "--test-data"
    )
    text_column: TextColumn = None
    label_column: LabelColumn = None
    label_separator: Text = option(
        "TEXT", 'What separates several labels in a cell, e.g. ";" (default: one label).'
    )


class Pairs(Group, heading="Data", section="data"):
    source_paths: Source = None
    target_paths: Target = None
    validation_source_paths: Texts = option(
        "PATH", "Source file for validation (with --valid-target).", "--valid-source"
    )
    validation_target_paths: Texts = option(
        "PATH", "Target file for validation (with --valid-source).", "--valid-target"
    )
    source_column: SourceColumn = None
    target_column: TargetColumn = None
    reverse: Flag = switch("--reverse", "Translate from target to source.")


class Files(Group, heading="Data", section="data"):
    encoding: Encoding = None


class Images(Group, heading="Data", section="data"):
    image_size: Text = option(
        "N",
        "Size to which images are resized, e.g. 32, or 24x32 for height x width (default: depends "
        "on the data).",
    )
    palette: Whole = count("Number of colours to paint with (default: 512, or 16 greys).")
    image_column: ImageColumn = None
    strict: Flag = switch("--strict", "Refuse files that are not images instead of skipping them.")


class Architecture(Group, heading="Model", section="model"):
    preset: Text = option("NAME", "Preset of the model (default: depends on the amount of data).")
    cell: Literal["rnn", "lstm", "gru"] | None = option(
        None, "Recurrent cell (default: depends on the model)."
    )
    num_layers: Whole = count("Number of layers (default: set by the preset).", "--layers")
    bidirectional: Flag = switch(
        "--bidirectional/--one-direction",
        "Let a recurrent model read in both directions or only forwards (default: both).",
    )
    attention: Literal["additive", "dot", "general", "none"] | None = option(
        None, "Attention of a recurrent translator (default: additive)."
    )


class Tokenizer(Group, heading="Model", section="tokenizer"):
    kind: Literal["auto", "char", "word", "bpe", "wordpiece", "unigram"] | None = option(
        None, "Kind of tokenizer to train (default: auto).", "--tokenizer"
    )


class GivenModel(Group, heading="Fine-tuning"):
    start: Text = option(
        "MODEL",
        "Trained model to train further, with its preprocessing.",
        "--from",
        callback=known_model,
    )


class Further(Group, heading="Fine-tuning", section="finetune"):
    lora: Flag = switch("--lora", "Train only LoRA matrices of rank 8.")
    lora_rank: Whole = count("Train only LoRA matrices of rank N, e.g. 4.")
    add_tokens: Texts = option(
        "TOKEN", "Token to add to the vocabulary of the given model (may be repeated)."
    )


class NewHead(Group, heading="Fine-tuning", section="finetune"):
    freeze: Flag = switch("--freeze", "Train only the new head.")
    freeze_layers: Whole = count("Freeze the embedding and the first N layers.")
    layer_lr_decay: Number = option(
        "X",
        "Learning rate of a layer relative to the layer above (default: 0.9 for published models, "
        "otherwise 1.0).",
    )
    lora: Flag = Further.lora
    lora_rank: Whole = Further.lora_rank


class Training(Group, heading="Training", section="training"):
    max_steps: Whole = count("Number of training steps (default: depends on the amount of data).")
    num_train_epochs: Number = option(
        "X",
        "Number of passes over the data, instead of --max-steps.",
        *("--num-train-epochs", "--epochs"),
    )
    learning_rate: Number = option(
        "X",
        "Peak of the learning rate schedule (default: depends on the model and the optimizer).",
        *("--learning-rate", "--lr"),
    )
    per_device_train_batch_size: Whole = count(
        "Number of texts, windows or pairs in a batch (default: depends on the task).",
        "--batch-size",
    )
    time_limit: Text = option(
        "TIME",
        "Limit the number of steps to fit in this time, e.g. 90s, 15m or 1h30.",
        parser=with_unit,
    )
    optimizer: Literal["muon", "adamw", "sgd"] | None = option(
        None, "Optimizer (default: depends on the model)."
    )
    lr_scheduler_type: Literal["cosine", "linear", "wsd", "noam", "constant"] | None = option(
        None, "Learning rate schedule (default: linear)."
    )
    ema: Number = option(
        "X",
        "Decay of the moving average of the weights, e.g. 0.999 (default: depends on the task).",
    )
    early_stopping: Whole = count("Stop after N validations without improvement.")
    seed: Whole = option("N", "Random seed (default: 0).")


class Devices(Group, heading="Devices", section="training"):
    devices: Whole = count(
        "Devices of this machine, each with a process of its own; on a CPU, processes (default: 1)."
    )
    num_nodes: Whole = count("Machines that train together (default: 1).")
    strategy: Literal["ddp", "fsdp"] | None = option(
        None, "What processes divide: batches, or the model, too (default: ddp)."
    )
    checkpoint_activations: Flag = switch(
        "--checkpoint-activations", "Recompute activations instead of keeping them in memory."
    )


# These set its keys.
RECIPE = (
    *(Examples, Pairs, Files, Images, Architecture, Tokenizer, Further, NewHead, Training),
    Devices,
)


class Run(Group, heading="Run"):
    out: Path | None = option("FOLDER", "Run folder (default: runs/MODEL-DATA).")
    recipe: Path | None = option("FILE", "YAML file with settings; options override it.")
    assignments: Texts = option(
        "KEY=VALUE", "Set any key of the recipe (may be repeated).", "--set"
    )
    resume: Flag = switch("--resume", "Continue a run that was stopped.")
    force: Flag = switch(
        "--force", "Overwrite an existing run. With --resume: continue with changed settings."
    )
    dry_run: Flag = switch("--dry-run", "Show what would happen; write nothing.")
    print_recipe: Flag = switch(
        "--print-recipe", "Print every key of the recipe with its value, and exit."
    )
    as_json: Flag = switch("--json", "Print the result as one JSON object.")
