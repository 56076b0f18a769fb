"""Typed, frozen settings, and the YAML recipes they are written in.

Every config is a `Config`: immutable, validated when made, and closed, so that a misspelt key is an
error instead of a default that nobody asked for. A recipe is a YAML file of nested configs; each
key has a dotted name (`training.learning_rate`) by which errors and `--set` speak of it.
"""

import difflib
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from glassformer.errors import GlassformerError, UsageError

Values = dict[str, Any]
Origins = dict[str, int | str]  # dotted key → its line in the file, or the option that said it


def _whole(value: Any) -> Any:
    """9e9 and "9e9" are counts too; 2.5 is not, and pydantic says so."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def several(value: Any) -> Any:
    """`paths: notes.txt` in a recipe means a list of one."""
    return (value,) if isinstance(value, str) else value


Count = Annotated[int, BeforeValidator(_whole)]
Names = Annotated[tuple[str, ...], BeforeValidator(several)]


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

    `prefix` is the dotted name of the section in which the values stand.
    """
    try:
        return cls.model_validate(values)
    except ValidationError as found:
        place = _Place(where, origins or {}, prefix)
        problems = [_explain(cls, dict(problem), place) for problem in found.errors()]
        raise error(" ".join(problems)) from None


def read_yaml(path: Path) -> tuple[Values, Origins]:
    """A recipe as nested dicts, with the line of every key."""
    lines: Origins = {}
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        values = None if root is None else _plain(root, "", lines, path)
    except FileNotFoundError:
        raise GlassformerError(f"{path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise GlassformerError(f"{path}, byte {error.start:,}: a recipe is UTF-8 text.") from None
    except OSError as error:
        raise GlassformerError(f"{path} cannot be read: {error.strerror}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise GlassformerError(f"{path}{line}: {problem}. Mend the YAML there.") from None
    except RecursionError:  # an alias inside its own anchor, or brackets without end
        raise GlassformerError(f"{path} is nested too deeply to be a recipe.") from None
    if not isinstance(values, dict):
        raise GlassformerError(
            f"{path} is not a recipe: it must hold sections such as model: and data:."
        )
    return values, lines


def write_yaml(config: Config) -> str:
    """The recipe text that `read_yaml` and `parse` turn back into `config`."""
    values = config.model_dump(mode="json")
    return str(yaml.safe_dump(values, sort_keys=False, allow_unicode=True))


def assign(values: Values, assignment: str) -> None:
    """Apply one `--set a.b=value` to nested dicts. The value is read as YAML, as in a recipe."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise UsageError(
            f"--set {assignment} is not KEY=VALUE. "
            "Say, for example, --set training.learning_rate=1e-3."
        )
    *parents, last = key.strip().split(".")
    for parent in parents:
        inner = values.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise UsageError(f"--set {assignment}: {parent} is a value, not a section.")
        values = inner
    try:
        values[last] = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UsageError(f"--set {assignment}: the value is not YAML.") from None


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values, in order."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _plain(node: yaml.Node, prefix: str, lines: Origins, path: Path) -> Any:
    if not isinstance(node, yaml.MappingNode):
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError):
            line = node.start_mark.line + 1
            raise GlassformerError(
                f"{path}, line {line}: only plain values may stand in a recipe."
            ) from None
    values: Values = {}
    for key_node, value_node in node.value:
        key, line = str(key_node.value), key_node.start_mark.line + 1
        if key in values:
            raise GlassformerError(f"{path}, line {line}: {prefix}{key} is given twice. Keep one.")
        lines[f"{prefix}{key}"] = line
        values[key] = _plain(value_node, f"{prefix}{key}.", lines, path)
    return values


@dataclass(frozen=True)
class _Place:
    """Where values were written: the file, the line or the option of each key, the section."""

    where: str
    origins: Origins
    prefix: str

    def __call__(self, key: str) -> str:
        origin = self.origins.get(key)
        if isinstance(origin, str):
            return " in the command"
        place = f" in {self.where}" if self.where else ""
        return place if origin is None else f"{place}, line {origin}"

    def subject(self, key: str) -> str:
        """The option that said it, or the key and where it stands."""
        origin = self.origins.get(key)
        return origin if isinstance(origin, str) else f"{key}{self(key)}"


# pydantic speaks of "input" and of types; these are the same reasons for people.
_REASONS = {
    "greater_than": "it must be above {gt:g}",
    "greater_than_equal": "it must be {ge:g} or more",
    "less_than": "it must be below {lt:g}",
    "less_than_equal": "it must be {le:g} or less",
    "literal_error": "it must be {expected}",
    "finite_number": "it must be a finite number",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "it must be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "it must be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "it must be true or false"),
    "string_type": "it must be text",
    **dict.fromkeys(("list_type", "tuple_type"), "it must be a list"),
    **dict.fromkeys(("dict_type", "model_type"), "it must be a section of keys"),
}


def reason(problem: Mapping[str, Any]) -> str:
    """Why pydantic refused a value, in words of ours and without a full stop."""
    known = _REASONS.get(problem["type"])
    if known is not None:
        return known.format(**problem.get("ctx", {}))
    return str(problem["msg"]).removeprefix("Value error, ").rstrip(".")


def _explain(cls: type[Config], problem: dict[str, Any], place: _Place) -> str:
    path = [str(part) for part in problem["loc"]]
    key = place.prefix + ".".join(path)
    if problem["type"] == "extra_forbidden":
        known = _keys_beside(cls, path)
        near = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
        cure = f"Did you mean {near[0]}?" if near else f"Known keys there: {', '.join(known)}."
        return f"unknown key {key}{place(key)}. {cure}"
    if problem["type"] == "missing":
        return f"{key} is missing{place(key)}."
    why = reason(problem)
    if not path or isinstance(problem["input"], dict):  # of several keys together
        return f"{why}{place(key)}."
    key = re.sub(r"\.\d+$", "", key)  # of a list: the value shows which
    return f"{place.subject(key)} is {problem['input']!r}: {why[:1].lower()}{why[1:]}."


def _keys_beside(cls: type[BaseModel], path: list[str]) -> list[str]:
    """The field names of the config that `path` ends in."""
    for part in path[:-1]:
        field = cls.model_fields.get(part)
        inner = [kind for kind in _members(field.annotation if field else None) if _is_config(kind)]
        if not inner:
            return []
        cls = inner[0]
    return list(cls.model_fields)


def _members(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _is_config(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
