"""The options of `train` and `finetune` in Python: the names of the command line with underscores,
and the key of the recipe that each one sets. Torch and pydantic are not imported."""

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_type_hints

from glassformer.errors import UsageError
from glassformer.wording import did_you_mean

OnePath = str | os.PathLike[str]
Paths = OnePath | Sequence[OnePath]
"""One path or several: files, folders, archives, patterns or Hugging Face datasets."""
Names = str | Sequence[str]

Verb = TypeVar("Verb", bound=Callable[..., Any])


class Common(TypedDict, total=False):
    """Options of both verbs."""

    validation_data: Annotated[Paths, "data.validation_paths"]
    test_data: Annotated[Paths, "data.test_paths"]
    text_column: Annotated[Names, "data.text_column"]
    label_column: Annotated[str, "data.label_column"]
    label_separator: Annotated[str, "data.label_separator"]
    encoding: Annotated[str, "data.encoding"]
    image_size: Annotated[int | str | tuple[int, int], "data.image_size"]
    palette: Annotated[int, "data.palette"]
    image_column: Annotated[str, "data.image_column"]
    strict: Annotated[bool, "data.strict"]
    max_steps: Annotated[int, "training.max_steps"]
    num_train_epochs: Annotated[float, "training.num_train_epochs"]
    learning_rate: Annotated[float, "training.learning_rate"]
    batch_size: Annotated[int, "training.per_device_train_batch_size"]
    time_limit: Annotated[str, "training.time_limit"]
    optimizer: Annotated[Literal["muon", "adamw", "sgd"], "training.optimizer"]
    lr_scheduler_type: Annotated[
        Literal["cosine", "linear", "wsd", "noam", "constant"], "training.lr_scheduler_type"
    ]
    ema: Annotated[float, "training.ema"]
    early_stopping: Annotated[int, "training.early_stopping"]
    lora: Annotated[bool, "finetune.lora"]
    lora_rank: Annotated[int, "finetune.lora_rank"]
    seed: Annotated[int, "training.seed"]
    devices: Annotated[int, "training.devices"]
    num_nodes: Annotated[int, "training.num_nodes"]
    strategy: Annotated[Literal["ddp", "fsdp"], "training.strategy"]
    checkpoint_activations: Annotated[bool, "training.checkpoint_activations"]


class TrainOptions(Common, total=False):
    """Options of `train`."""

    source: Annotated[Paths, "data.source_paths"]
    target: Annotated[Paths, "data.target_paths"]
    valid_source: Annotated[Paths, "data.validation_source_paths"]
    valid_target: Annotated[Paths, "data.validation_target_paths"]
    source_column: Annotated[str, "data.source_column"]
    target_column: Annotated[str, "data.target_column"]
    reverse: Annotated[bool, "data.reverse"]
    preset: Annotated[str, "model.preset"]
    cell: Annotated[Literal["rnn", "lstm", "gru"], "model.cell"]
    layers: Annotated[int, "model.num_layers"]
    bidirectional: Annotated[bool, "model.bidirectional"]
    attention: Annotated[Literal["additive", "dot", "general", "none"], "model.attention"]
    tokenizer: Annotated[
        Literal["auto", "char", "word", "bpe", "wordpiece", "unigram"], "tokenizer.kind"
    ]
    add_tokens: Annotated[Names, "finetune.add_tokens"]


class FinetuneOptions(Common, total=False):
    """Options of `finetune`."""

    freeze: Annotated[bool, "finetune.freeze"]
    freeze_layers: Annotated[int, "finetune.freeze_layers"]
    layer_lr_decay: Annotated[float, "finetune.layer_lr_decay"]


Options = type[TrainOptions] | type[FinetuneOptions]


def keys(options: Options) -> dict[str, str]:
    """The key of the recipe that each option sets."""
    hints = get_type_hints(options, include_extras=True)
    return {"data": "data.paths"} | {name: kind.__metadata__[0] for name, kind in hints.items()}


# Methods of models call data by the keys of a recipe: paths for --data.
_DATA = {
    key.removeprefix("data."): name
    for name, key in keys(TrainOptions).items()
    if key.startswith("data.")
}


def as_typed(name: str) -> str:
    """As on the command line: num_beams → --num-beams, paths → --data."""
    return f"--{_DATA.get(name, name).replace('_', '-')}"


def accepted(options: Mapping[str, Any], method: Callable[..., Any], model: Any) -> dict[str, Any]:
    """The options that were passed, as arguments of a method of `model`. One that the method does
    not have is an error: ignoring it would hide a misunderstanding. `options` are all of the verb,
    None if not passed."""
    known = signature(method).parameters
    usable = [name for name in options if name in known]
    wanted = {name: value for name, value in options.items() if value is not None}
    if unknown := [name for name in wanted if name not in usable]:
        names = ", ".join(map(as_typed, usable))
        known_ones = f"It accepts {names}." if names else "It has no options."
        raise UsageError(f"{model} does not accept {as_typed(unknown[0])}. {known_ones}")
    return wanted


def shows(options: Options) -> Callable[[Verb], Verb]:
    """List the options in the signature of a function that takes them as `**options`, for `help`
    and for completion."""

    def with_signature(verb: Verb) -> Verb:
        own = signature(verb)
        *first, _ = own.parameters.values()
        hints = get_type_hints(options).items()
        more = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind | None)
            for name, kind in hints
        ]
        verb.__dict__["__signature__"] = own.replace(parameters=[*first, *more])
        return verb

    return with_signature


_OTHER_NAMES = {"lr": "learning_rate", "epochs": "num_train_epochs", "steps": "max_steps"}


def check_names(given: Mapping[str, Any], verb: Callable[..., Any]) -> None:
    """Raise if a function was called with an option that it does not have."""
    known = [*signature(verb).parameters]
    for name in given:
        if name not in known:
            meant, help_ = _OTHER_NAMES.get(name, name), f"See help(glassformer.{verb.__name__})."
            cure = did_you_mean(meant, known, help_, cutoff=0.7)
            raise UsageError(f"{verb.__name__} has no option {name}. {cure}")


def several_paths(value: Any) -> Any:
    """A path or a list of them as a list of strings; anything else as it is."""
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    if isinstance(value, Sequence):
        return [os.fspath(each) if isinstance(each, os.PathLike) else each for each in value]
    return value
