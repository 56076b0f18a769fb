"""The options that verbs share, or of which they have many, in groups with a heading in the help.

A verb takes a whole group by `@takes(Group)` and receives the values as keyword arguments, by name.
The options of `train` and `finetune` are declared in `glassformer/options.py`.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from inspect import Parameter, Signature, get_annotations, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_origin

import typer

from glassformer.cli.verb import existing_model
from glassformer.errors import UsageError
from glassformer.options import (
    OPTIONS,
    Names,
    OnePath,
    Options,
    Paths,
    Size,
    TrainOptions,
    as_typed,
    options_of,
)
from glassformer.wording import has_no_unit

if TYPE_CHECKING:
    from glassformer.tasks.task import Predictor

_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\\": "\\"}

VerbT = TypeVar("VerbT", bound=Callable[..., None])

String = str | None
Strings = list[str] | None
Integer = int | None
Float = float | None
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
    return re.sub(r"\\[ntr\\]", lambda escape: _ESCAPES[escape[0]], text)


def option(metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """Named after its parameter (num_beams is --num-beams), unless names are given."""
    return typer.Option(..., *names, metavar=metavar, help=help, **more)


def count(help: str, *names: str, **more: Any) -> Any:
    return option("N", help, *names, parser=positive, **more)


def switch(names: str, help: str, **more: Any) -> Any:
    """An option without a value: `--on`, or `--on/--off`."""
    return option(None, help, names, **more)


def argument(metavar: str, help: str, **more: Any) -> Any:
    return typer.Argument(metavar=metavar, help=help, **more)


class Group:
    """Options under one heading."""

    parameters: ClassVar[list[Parameter]]

    def __init_subclass__(cls, heading: str) -> None:
        cls.parameters = []
        for name, kind in get_annotations(cls).items():
            info = getattr(cls, name)
            info.rich_help_panel = heading
            cls.parameters.append(_parameter(name, Annotated[kind, info]))


def _parameter(name: str, kind: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def recipe_options(verb: Options) -> list[Parameter]:
    """The options of `train` or `finetune` that set keys of the recipe."""
    return [_parameter(name, _for_typer(name, kind)) for name, kind in options_of(verb).items()]


def takes(*groups: type[Group] | list[Parameter], without: str = "") -> Callable[[VerbT], VerbT]:
    """Give a verb the options of these groups, after its positional parameters and before its
    keyword-only ones. It receives those that were passed, by name."""

    def with_options(verb: VerbT) -> VerbT:
        @wraps(verb)
        def call(**values: Any) -> None:
            verb(**{name: value for name, value in values.items() if value is not None})

        parameters = signature(verb).parameters.values()
        first = [param for param in parameters if param.kind is Parameter.POSITIONAL_OR_KEYWORD]
        last = [param for param in parameters if param.kind is Parameter.KEYWORD_ONLY]
        lists = [group if isinstance(group, list) else group.parameters for group in groups]
        options = [param for group in lists for param in group if param.name != without]
        call.__dict__["__signature__"] = Signature([*first, *options, *last])
        return call  # type: ignore[return-value]

    return with_options


_METAVARS = {int: "N", float: "X", bool: None, Paths: "PATH"}
_TYPES = {Paths: list[str], Names: list[str], OnePath: str, Size: str}


def _for_typer(name: str, kind: Any) -> Any:
    """The type of an option of `train` or `finetune`, as typer declares it."""
    about = OPTIONS[name]
    is_choice = get_origin(kind) is Literal
    metavar = about.metavar or (None if is_choice else _METAVARS.get(kind, "NAME"))
    more: dict[str, Any] = {}
    if kind is int and about.least:
        more["parser"] = positive
    elif metavar == "TIME":
        more["parser"] = with_unit
    elif metavar == "MODEL":
        more["callback"] = existing_model
    names = (as_typed(name) + (about.off and f"/{about.off}"), *about.also)
    info = option(metavar, about.help, *names, rich_help_panel=about.heading, **more)
    return Annotated[_TYPES.get(kind, kind) | None, info]


def _shared(name: str) -> Any:
    """An option of `train` that other verbs have, too."""
    return _for_typer(name, options_of(TrainOptions)[name]).__metadata__[0]


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
        callback=existing_model,
    ),
]

Data = Annotated[Strings, _shared("data")]
DataToRead = Annotated[list[str], _shared("data")]
Source = Annotated[Strings, _shared("source")]
Target = Annotated[Strings, _shared("target")]
SourceColumn = Annotated[String, _shared("source_column")]
TargetColumn = Annotated[String, _shared("target_column")]
TextColumn = Annotated[Strings, _shared("text_column")]
LabelColumn = Annotated[String, _shared("label_column")]
ImageColumn = Annotated[String, _shared("image_column")]
Encoding = Annotated[String, _shared("encoding")]

JsonObject = Annotated[bool, _json("Print one JSON object.")]
JsonLines = Annotated[bool, _json("Print one JSON object per line.")]
ForceFolder = Annotated[
    bool, switch("--force", "Overwrite an existing folder.", rich_help_panel="Output")
]

Picture = Annotated[
    Path | None,
    output("FILE", "File for the images; its extension sets the format: .png, .svg or .json."),
]


class Sampling(Group, heading="Sampling"):
    temperature: Float = option(
        "X", "Sampling temperature; 0 is greedy, higher is more random (default: 1.0)."
    )
    top_k: Integer = count("Sample from the N most likely tokens.")
    top_p: Float = option("P", "Sample from the most likely tokens with total probability P.")
    min_p: Float = option(
        "P", "Sample from tokens at least P times as likely as the most likely one."
    )
    repetition_penalty: Float = option(
        "X", "Penalty for repeated tokens; above 1 makes them less likely (default: 1.0)."
    )
    seed: Integer = option("N", "Random seed, for reproducible text.")


class Beams(Group, heading="Beam search"):
    num_beams: Integer = count("Number of beams; 1 means no beam search (default: 1).")
    length_penalty: Float = option(
        "X",
        "Divide scores by length to the power of X; higher values favour longer texts "
        "(default: 1.0).",
    )


class TranslationBeams(Group, heading="Beam search"):
    num_beams: Integer = count("Number of beams; 1 is greedy search (default: 5).")
    length_penalty: Float = Beams.length_penalty
    num_beam_groups: Integer = count("Number of beam groups, for diverse beam search (default: 1).")
    diversity_penalty: Float = option(
        "X", "Penalty for tokens that other groups chose (default: 0.5)."
    )


class Writing(Group, heading="Output"):
    max_new_tokens: Integer = count("Maximum number of tokens to generate (default: 200).")
    no_repeat_ngram_size: Integer = count("Never repeat a sequence of N tokens.")
    num_return_sequences: Integer = count("Number of texts to print (default: 1).")
    stop: Strings = option(
        "TEXT", r"Stop before this string (\n is a line break; may be repeated).", parser=unescape
    )


class Translations(Group, heading="Output"):
    max_new_tokens: Integer = count(
        "Maximum number of tokens in a translation (default: from the training data)."
    )
    num_return_sequences: Integer = Writing.num_return_sequences
    no_repeat_ngram_size: Integer = Writing.no_repeat_ngram_size
    prefix: String = option("TEXT", "Text that the translation must start with.")
    copy_unknown: Flag = switch(
        "--copy-unknown/--keep-unknown",
        "Copy unknown words from the source, or keep the unknown token (default: copy).",
    )


class CaptionBeams(Group, heading="Beam search"):
    num_beams: Integer = count("Number of beams; 1 is greedy search (default: 4).")
    length_penalty: Float = Beams.length_penalty


class Captions(Group, heading="Output"):
    max_new_tokens: Integer = count(
        "Maximum number of tokens in a caption (default: that of the longest training caption)."
    )
    num_return_sequences: Integer = count("Number of captions of each image (default: 1).")
    no_repeat_ngram_size: Integer = Writing.no_repeat_ngram_size


@contextmanager
def naming_options(predictor: "Predictor", settings: Iterable[str]) -> Iterator[None]:
    """Errors about settings name the options: num_beams becomes --num-beams. A setting of one word,
    such as `stop`, is an English word too: it is replaced only if it was passed."""
    try:
        yield
    except UsageError as error:
        fields = () if predictor.settings_class is None else predictor.settings_class.model_fields
        names = {name for name in fields if "_" in name}.union(settings)
        pattern = rf"\b({'|'.join(sorted(names))})\b"
        message = str(error).replace(" in the settings", "")
        raise UsageError(re.sub(pattern, lambda name: as_typed(name[0]), message)) from None
