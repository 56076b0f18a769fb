"""Typed, frozen settings, and the YAML recipes they are written in.

Every config is a `Config`: immutable, validated when made, and closed, so that a misspelt key is an
error and not silently ignored. A recipe is a YAML file of nested configs; errors and `--set` refer
to a key by its dotted name (`training.learning_rate`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from glassformer.errors import GlassformerError
from glassformer.wording import cause, similar

# --- typed settings ---

Values = dict[str, Any]
Origins = dict[str, int | str]  # dotted key → its line in the file, or the option that set it


class Config(BaseModel):
    """Base of every group of settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


ConfigT = TypeVar("ConfigT", bound=Config)


def parse(
    cls: type[ConfigT],
    values: Values,
    where: str = "",
    origins: Origins | None = None,
    prefix: str = "",
    error: type[GlassformerError] = GlassformerError,
) -> ConfigT:
    """Validate `values`; a problem names its option, or its key and line and the nearest key.

    `prefix` is the dotted name of the section that contains the values.
    """
    try:
        return cls.model_validate(values)
    except ValidationError as refusal:
        location = Location(where, origins or {}, prefix)
        problems = [explain(cls, dict(problem), location) for problem in refusal.errors()]
        raise error(" ".join(dict.fromkeys(problems))) from None  # a list may have one twice


# --- types of fields ---


def _whole(value: Any) -> Any:
    """Accept 9e9 and "9e9" as counts; pydantic refuses 2.5."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def several(value: Any) -> Any:
    """Accept `paths: notes.txt` as a list of one."""
    return (value,) if isinstance(value, str) else value


def _height_and_width(value: Any) -> Any:
    """Accept 32 and "32" as 32 × 32, and "24x32" as a height and a width."""
    if isinstance(value, str):
        sides = value.lower().replace("×", "x").split("x")
        if len(sides) > 2 or not all(side.strip().isdecimal() for side in sides):
            raise ValueError("it must be a number of pixels, or height x width, such as 24x32")
        value = int(sides[0]) if len(sides) == 1 else tuple(sides)
    return (value, value) if isinstance(value, int) else value


Count = Annotated[int, BeforeValidator(_whole)]
StringTuple = Annotated[tuple[str, ...], BeforeValidator(several)]
Side = Annotated[Count, Field(ge=1, le=2**14)]
ImageSize = Annotated[tuple[Side, Side], BeforeValidator(_height_and_width)]
"""Height and width in pixels."""


# --- recipes, the files that settings are written in ---

MOST_VALUES = 100_000  # in a recipe: a few lines of aliases can stand for billions


def read_yaml(path: Path) -> tuple[Values, Origins]:
    """A recipe as nested dicts, with the line of every key."""
    lines: Origins = {}
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        if root is not None and _size(root) > MOST_VALUES:
            raise GlassformerError(f"{path} has far too many values for a recipe.")
        values = None if root is None else _plain(root, "", lines, path)
    except FileNotFoundError:
        raise GlassformerError(f"{path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise GlassformerError(
            f"{path}, byte {error.start:,}: invalid UTF-8. Save the recipe as UTF-8."
        ) from None
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {cause(error)}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise GlassformerError(f"{path}{line}: {problem}. Correct the YAML there.") from None
    except RecursionError:  # an alias inside its own anchor, or thousands of brackets
        raise GlassformerError(f"{path} is nested too deeply to be a recipe.") from None
    if not isinstance(values, dict):
        raise GlassformerError(
            f"{path} is not a recipe: it must contain sections such as model: and data:."
        )
    return values, lines


def write_yaml(config: Config) -> str:
    """The recipe text that `read_yaml` and `parse` turn back into `config`."""
    values = config.model_dump(mode="json")
    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values, in order."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _size(node: yaml.Node) -> int:
    """The number of values, with those that aliases repeat; at most a little more than allowed."""
    total, left = 0, [node]
    while left and total <= MOST_VALUES:
        total += 1
        match left.pop():
            case yaml.MappingNode(value=pairs):
                left += [node for pair in pairs for node in pair]
            case yaml.SequenceNode(value=nodes):
                left += nodes
    return total


def _plain(node: yaml.Node, prefix: str, lines: Origins, path: Path) -> Any:
    if not isinstance(node, yaml.MappingNode):
        try:
            return yaml.SafeLoader("").construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError):
            where = f"{path}, line {node.start_mark.line + 1}"
            raise GlassformerError(f"{where}: a recipe can contain only plain values.") from None
    values: Values = {}
    for key_node, value_node in node.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in values:
            raise GlassformerError(f"{path}, line {line}: {prefix}{key} is set twice. Keep one.")
        lines[f"{prefix}{key}"] = line
        values[key] = _plain(value_node, f"{prefix}{key}.", lines, path)
    return values


# --- what is wrong with a setting, as a sentence: its option, or its key and line, and the cure ---

COMMAND_LINE = "the command line"

# What other programs call a key, where the spelling alone would not lead to ours.
SYNONYMS = {
    "lr": "learning_rate",
    "batch": "per_device_train_batch_size",
    "batch_size": "per_device_train_batch_size",
    "train_batch_size": "per_device_train_batch_size",
    "epochs": "num_train_epochs",
    "max_epochs": "num_train_epochs",
    "num_epochs": "num_train_epochs",
    "steps": "max_steps",
    "scheduler": "lr_scheduler_type",
    "patience": "early_stopping",
    "grad_clip": "max_grad_norm",
    "block_size": "context_length",
    "max_length": "context_length",
    "hidden_size": "d_model",
    "n_embd": "d_model",
    "n_head": "num_heads",
    "n_layer": "num_layers",
}


def located(where: str) -> str:
    """The location of a problem as part of a sentence; empty if it has none."""
    return where and f" {'on' if where == COMMAND_LINE else 'in'} {where}"


@dataclass(frozen=True)
class Location:
    """Where values come from: the file, the line or the option of each key, the section."""

    where: str
    origins: Origins
    prefix: str

    def __call__(self, key: str) -> str:
        origin, file = self.origins.get(key), located(self.where)
        if isinstance(origin, str):
            return located(COMMAND_LINE)
        return file if origin is None else f"{file}, line {origin}"

    def subject(self, key: str) -> str:
        """The option that set it, or the key and its location."""
        origin = self.origins.get(key)
        return origin if isinstance(origin, str) else f"{key}{self(key)}"


# The reasons of pydantic, for readers who do not know its types.
_REASONS = {
    "greater_than": "it must be above {gt}",
    "greater_than_equal": "it must be {ge} or more",
    "less_than": "it must be below {lt}",
    "less_than_equal": "it must be {le} or less",
    "literal_error": "it must be {expected}",
    "finite_number": "it must be a finite number",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "it must be a whole number"),
    "int_parsing_size": "it is far too large",
    **dict.fromkeys(("float_parsing", "float_type"), "it must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "it must be true or false"),
    "string_type": "it must be text",
    **dict.fromkeys(("list_type", "tuple_type"), "it must be a list"),
    **dict.fromkeys(("dict_type", "model_type"), "it must be a section of keys"),
}


def reason(problem: Mapping[str, Any]) -> str:
    """Why pydantic refused a value, without a full stop."""
    if problem["type"] in _REASONS:
        return _REASONS[problem["type"]].format(
            **{key: _readable(value) for key, value in problem.get("ctx", {}).items()}
        )
    return str(problem["msg"]).removeprefix("Value error, ").rstrip(".")


def _readable(value: object) -> object:
    """16777216 rather than 1.67772e+07, and 1 rather than 1.0."""
    return f"{value:g}" if isinstance(value, float) else value


def explain(cls: type[BaseModel], problem: dict[str, Any], location: Location) -> str:
    path = [str(part) for part in problem["loc"]]
    key = location.prefix + ".".join(path)
    if problem["type"] == "extra_forbidden":
        known = keys_of_section(cls, path[:-1])
        near = nearest(path[-1], known, cutoff=0.5)
        cure = f"Did you mean {near}?" if near else f"Known keys: {', '.join(known)}."
        return f"unknown key {key}{location(key)}. {cure}"
    if problem["type"] == "missing":
        return f"{key} is missing{location(key)}."
    why = reason(problem)
    is_section = problem["type"] == "value_error" and isinstance(problem["input"], dict)
    if not path or is_section:  # of several keys together
        return f"{why}{location(key)}."
    key = re.sub(r"\.\d+$", "", key)  # an item of a list: the value shows which
    return f"{location.subject(key)} is {problem['input']!r}: {why[:1].lower()}{why[1:]}."


def nearest(key: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known key that was probably meant: a synonym, or one with a similar spelling."""
    names = list(known)
    if (meant := SYNONYMS.get(key)) in names:
        return meant
    return similar(key, names, cutoff)


def keys_of_section(cls: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The keys of the section that `path` leads to; none if its keys are not fixed."""
    for part in path:
        annotation = cls.model_fields[part].annotation if part in cls.model_fields else None
        kinds = get_args(annotation) or (annotation,)  # of X | None, both
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not inner:
            return []
        cls = inner[0]
    return list(cls.model_fields)
