"""Typed, frozen settings, and the YAML recipes they are written in.

Every config is a `Config`: immutable, validated when made, and closed, so that a misspelt key is an
error and not silently ignored. A recipe is a YAML file of nested configs; errors and `--set` refer
to a key by its dotted name (`training.learning_rate`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from glassformer.config_errors import Origins, Place, explain
from glassformer.errors import GlassformerError
from glassformer.wording import cause

Values = dict[str, Any]
MOST_VALUES = 100_000  # in a recipe: a few lines of aliases can stand for billions


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
Names = Annotated[tuple[str, ...], BeforeValidator(several)]
Side = Annotated[Count, Field(ge=1, le=2**14)]
ImageSize = Annotated[tuple[Side, Side], BeforeValidator(_height_and_width)]
"""Height and width in pixels."""


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
    except ValidationError as found:
        place = Place(where, origins or {}, prefix)
        problems = [explain(cls, dict(problem), place) for problem in found.errors()]
        raise error(" ".join(dict.fromkeys(problems))) from None  # a list may have one twice


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
