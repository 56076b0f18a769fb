"""The options of `train` and `finetune`. Each is declared once, with its name, its type, the key of
the recipe that it sets, and its help:

    max_steps: Annotated[int, training("Number of training steps (default: …).")]

From these lines come the options of the command line (`cli/options.py`), the signatures of
`glassformer.train` and `finetune`, the parameters of the estimator for scikit-learn, and the
table in docs/recipes.md. Bounds and fixed defaults are those of the key, in its config
(`tasks/recipe.py`); defaults that depend on the data are in `training/defaults.py`.

They are typed dictionaries, since type checkers can read these, and the help of the command line
needs no pydantic to do so.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_type_hints

from glassformer.errors import UsageError
from glassformer.wording import did_you_mean

OnePath = str | os.PathLike[str]
Paths = OnePath | Sequence[OnePath]
"""One path or several: files, folders, archives, patterns or Hugging Face datasets."""
Names = str | Sequence[str]
Size = int | str | tuple[int, int]
OptimizerKind = Literal["muon", "adamw", "sgd"]
ScheduleKind = Literal["cosine", "linear", "wsd", "noam", "constant"]
StrategyKind = Literal["ddp", "fsdp"]
TokenizerKind = Literal["auto", "char", "word", "bpe", "wordpiece", "unigram"]

VerbT = TypeVar("VerbT", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """What the command line and the docs show of an option, and where its value belongs."""

    section: str
    """The section of the recipe."""
    heading: str
    """The heading of the help under which it is listed."""
    help: str
    key: str = ""
    """The key in its section, if that is not the name of the option."""
    metavar: str | None = None
    """What stands for the value in the help, if the type does not decide it."""
    also: tuple[str, ...] = ()
    """Shorter names on the command line."""
    off: str = ""
    """The name that turns a switch off, if there is one."""
    least: int = 1
    """The smallest value of a whole number."""


_data = partial(Option, "data", "Data")
_model = partial(Option, "model", "Model")
_finetune = partial(Option, "finetune", "Fine-tuning")
_training = partial(Option, "training", "Training")
_devices = partial(Option, "training", "Devices")


class Data(TypedDict, total=False):
    data: Annotated[
        Paths, _data("Files, folders, archives, patterns or Hugging Face datasets.", key="paths")
    ]


class Examples(TypedDict, total=False):
    validation_data: Annotated[
        Paths,
        _data("Validation data (default: a part of --data is held out).", key="validation_paths"),
    ]
    test_data: Annotated[
        Paths,
        _data("Test data, on which the best model is evaluated at the end.", key="test_paths"),
    ]
    text_column: Annotated[
        Names, _data("Column of a table that contains the text (may be repeated).")
    ]
    label_column: Annotated[
        str, _data("Column of the label or tags, or columns of 0 and 1, separated by commas.")
    ]
    label_separator: Annotated[
        str,
        _data(
            'Separator of several labels in a cell, e.g. ";" (default: one label per cell).',
            metavar="TEXT",
        ),
    ]


class Pairs(TypedDict, total=False):
    source: Annotated[
        Paths,
        _data("File of sentences to translate, one per line (with --target).", key="source_paths"),
    ]
    target: Annotated[
        Paths, _data("File of translations, one per line (with --source).", key="target_paths")
    ]
    valid_source: Annotated[
        Paths,
        _data("Source file for validation (with --valid-target).", key="validation_source_paths"),
    ]
    valid_target: Annotated[
        Paths,
        _data("Target file for validation (with --valid-source).", key="validation_target_paths"),
    ]
    source_column: Annotated[
        str, _data("Column of a table, or language of a .tmx file, to translate from.")
    ]
    target_column: Annotated[
        str, _data("Column of a table, or language of a .tmx file, to translate to.")
    ]
    reverse: Annotated[bool, _data("Translate from target to source.")]


class Files(TypedDict, total=False):
    encoding: Annotated[
        str, _data("Encoding of files that are not valid UTF-8 (default: detected).")
    ]
    image_size: Annotated[
        Size,
        _data(
            "Size to which images are resized, e.g. 32, or 24x32 for height x width (default: "
            "depends on the data).",
            metavar="N",
        ),
    ]
    palette: Annotated[int, _data("Number of colours to paint with (default: 512, or 16 greys).")]
    image_column: Annotated[
        str, _data("Column of a table that contains the images or their paths.")
    ]
    strict: Annotated[bool, _data("Refuse files that are not images instead of skipping them.")]


class Architecture(TypedDict, total=False):
    preset: Annotated[str, _model("Preset of the model (default: depends on the amount of data).")]
    cell: Annotated[
        Literal["rnn", "lstm", "gru"], _model("Recurrent cell (default: depends on the model).")
    ]
    layers: Annotated[
        int, _model("Number of layers (default: set by the preset).", key="num_layers")
    ]
    bidirectional: Annotated[
        bool,
        _model(
            "Let a recurrent model read in both directions or only forwards (default: both).",
            off="--one-direction",
        ),
    ]
    attention: Annotated[
        Literal["additive", "dot", "general", "none"],
        _model("Attention of a recurrent translator (default: additive)."),
    ]
    tokenizer: Annotated[
        TokenizerKind,
        Option("tokenizer", "Model", "Kind of tokenizer to train (default: auto).", key="kind"),
    ]


class GivenModel(TypedDict, total=False):
    from_: Annotated[
        OnePath,
        _finetune(
            "Trained model to train further, with its preprocessing.", key="model", metavar="MODEL"
        ),
    ]


class NewHead(TypedDict, total=False):
    freeze: Annotated[bool, _finetune("Train only the new head.")]
    freeze_layers: Annotated[int, _finetune("Freeze the embedding and the first N layers.")]
    layer_lr_decay: Annotated[
        float,
        _finetune(
            "Learning rate of a layer relative to the layer above (default: 0.9 for published "
            "models, otherwise 1.0)."
        ),
    ]


class LowRank(TypedDict, total=False):
    lora: Annotated[bool, _finetune("Train only LoRA matrices of rank 8.")]
    lora_rank: Annotated[int, _finetune("Train only LoRA matrices of rank N, e.g. 4.")]


class Vocabulary(TypedDict, total=False):
    add_tokens: Annotated[
        Names,
        _finetune(
            "Token to add to the vocabulary of the given model (may be repeated).", metavar="TOKEN"
        ),
    ]


class Training(TypedDict, total=False):
    max_steps: Annotated[
        int, _training("Number of training steps (default: depends on the amount of data).")
    ]
    num_train_epochs: Annotated[
        float,
        _training("Number of passes over the data, instead of --max-steps.", also=("--epochs",)),
    ]
    learning_rate: Annotated[
        float,
        _training(
            "Peak of the learning rate schedule (default: depends on the model and the optimizer).",
            also=("--lr",),
        ),
    ]
    batch_size: Annotated[
        int,
        _training(
            "Number of texts, windows or pairs in a batch (default: depends on the task).",
            key="per_device_train_batch_size",
        ),
    ]
    time_limit: Annotated[
        str,
        _training(
            "Limit the number of steps to fit in this time, e.g. 90s, 15m or 1h30.", metavar="TIME"
        ),
    ]
    optimizer: Annotated[OptimizerKind, _training("Optimizer (default: depends on the model).")]
    lr_scheduler_type: Annotated[
        ScheduleKind, _training("Learning rate schedule (default: linear).")
    ]
    ema: Annotated[
        float,
        _training(
            "Decay of the moving average of the weights, e.g. 0.999 (default: depends on the task)."
        ),
    ]
    early_stopping: Annotated[int, _training("Stop after N validations without improvement.")]
    seed: Annotated[int, _training("Random seed (default: 0).", least=0)]
    devices: Annotated[
        int, _devices("Number of devices of this machine, or of processes on a CPU (default: 1).")
    ]
    num_nodes: Annotated[int, _devices("Number of machines (default: 1).")]
    strategy: Annotated[
        StrategyKind,
        _devices("Divide only batches, or also the model, among processes (default: ddp)."),
    ]
    checkpoint_activations: Annotated[
        bool, _devices("Recompute activations instead of keeping them in memory.")
    ]


class TrainOptions(
    Examples, Pairs, Files, Architecture, GivenModel, LowRank, Vocabulary, Training, total=False
):
    """Options of `train`."""


class FinetuneOptions(Examples, Files, NewHead, LowRank, Training, total=False):
    """Options of `finetune`."""


Options = type[TrainOptions] | type[FinetuneOptions]


def options_of(verb: Options) -> dict[str, Any]:
    """The options of a verb, each with its type. `data` is an argument in Python, so it is not
    among those that stand in `verb`."""
    return {**get_type_hints(Data), **get_type_hints(verb)}


OPTIONS: dict[str, Option] = {
    name: hint.__metadata__[0]
    for group in (Data, TrainOptions, FinetuneOptions)
    for name, hint in get_type_hints(group, include_extras=True).items()
}
"""What is declared about each option of the two verbs."""


def key_of(name: str) -> str:
    """The key of the recipe that an option sets, such as training.max_steps."""
    return f"{OPTIONS[name].section}.{OPTIONS[name].key or name}"


# Methods of models call data by the keys of a recipe: paths for --data.
_DATA = {option.key: name for name, option in OPTIONS.items() if option.section == "data"}


def as_typed(name: str) -> str:
    """As on the command line: num_beams → --num-beams, paths → --data."""
    return f"--{_DATA.get(name, name).strip('_').replace('_', '-')}"


def by_section(options: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The options that were passed, in the sections of a recipe, and the option that set each key.
    Those that are None were not passed."""
    sections: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    for name, option in OPTIONS.items():
        value = options.get(name)
        if value is not None:
            value = value if isinstance(value, str) else several_paths(value)
            sections.setdefault(option.section, {})[option.key or name] = value
            origins[key_of(name)] = (value is False and option.off) or as_typed(name)
    if (start := options.get("from_")) is not None:
        sections["finetune"] |= {"model": os.fspath(start), "head": "kept"}
    return sections, origins


def accepted(options: Mapping[str, Any], method: Callable[..., Any], model: Any) -> dict[str, Any]:
    """The options that were passed, as arguments of a method of `model`. One that the method does
    not have is an error: ignoring it would hide a misunderstanding. `options` are all of the verb,
    None if not passed."""
    parameters = signature(method).parameters
    usable = [as_typed(name) for name in options if name in parameters]
    passed = {name: value for name, value in options.items() if value is not None}
    if unknown := [as_typed(name) for name in passed if name not in parameters]:
        cure = f"It accepts {', '.join(usable)}." if usable else "It has no options."
        raise UsageError(f"{model} does not accept {unknown[0]}. {cure}")
    return passed


def shows(
    options: Options, suits: Callable[[str], bool] = lambda name: True
) -> Callable[[VerbT], VerbT]:
    """List the options that suit a function, which takes them as `**options`, in its signature:
    for `help`, for completion, and for scikit-learn."""

    def with_signature(verb: VerbT) -> VerbT:
        original = signature(verb)
        *parameters, _ = original.parameters.values()
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind | None)
            for name, kind in options_of(options).items()
            if name not in original.parameters and suits(name)
        ]
        verb.__dict__["__signature__"] = original.replace(parameters=parameters)
        return verb

    return with_signature


def check_names(names: Iterable[str], verb: Callable[..., Any]) -> None:
    """Raise if a function was called with an option that it does not have."""
    options = [*signature(verb).parameters]
    for name in names:
        if name not in options:
            from glassformer.config import SYNONYMS

            meant, help_ = SYNONYMS.get(name, name), f"See help(glassformer.{verb.__name__})."
            cure = did_you_mean(meant, options, help_, cutoff=0.7)
            raise UsageError(f"{verb.__name__} has no option {name}. {cure}")


def several_paths(value: Any) -> Any:
    """A path or a list of them as a list of strings; anything else as it is."""
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    if isinstance(value, Sequence):
        return [os.fspath(path) if isinstance(path, os.PathLike) else path for path in value]
    return value
