"""What is wrong with a setting, as a sentence: its option, or its key and line, and the cure.

An unknown key gets the nearest known one as a suggestion.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from glassformer.wording import similar

Origins = dict[str, int | str]  # dotted key → its line in the file, or the option that set it

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
    """The place of a problem as part of a sentence; empty if it has none."""
    return where and f" {'on' if where == COMMAND_LINE else 'in'} {where}"


@dataclass(frozen=True)
class Place:
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
        """The option that set it, or the key and its place."""
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


def explain(cls: type[BaseModel], problem: dict[str, Any], place: Place) -> str:
    path = [str(part) for part in problem["loc"]]
    key = place.prefix + ".".join(path)
    if problem["type"] == "extra_forbidden":
        known = keys_of_section(cls, path[:-1])
        near = nearest(path[-1], known, cutoff=0.5)
        cure = f"Did you mean {near}?" if near else f"Known keys: {', '.join(known)}."
        return f"unknown key {key}{place(key)}. {cure}"
    if problem["type"] == "missing":
        return f"{key} is missing{place(key)}."
    why = reason(problem)
    is_section = problem["type"] == "value_error" and isinstance(problem["input"], dict)
    if not path or is_section:  # of several keys together
        return f"{why}{place(key)}."
    key = re.sub(r"\.\d+$", "", key)  # an item of a list: the value shows which
    return f"{place.subject(key)} is {problem['input']!r}: {why[:1].lower()}{why[1:]}."


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
