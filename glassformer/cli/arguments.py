"""Options of a verb as arguments of a Python function, and errors the other way round."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.predict.predictor import Predictor

# Options that have another name in Python.
_PARAMETERS = {"data": "paths", "source": "source_paths", "target": "target_paths"}


def passed(values: Mapping[str, Any], without: Iterable[str] = ()) -> dict[str, Any]:
    """The arguments of a verb, by name, that were passed: all that are not None."""
    return {k: v for k, v in values.items() if v is not None and k not in without}


def option(name: str) -> str:
    """num_beams → --num-beams."""
    return f"--{name.replace('_', '-')}"


def accepted(options: Mapping[str, Any], method: Callable[..., Any], model: Path) -> dict[str, Any]:
    """The options that were passed, as arguments of a method of `model`. One that the method does
    not have is an error: ignoring it would hide a misunderstanding. `options` are all of the verb,
    None if not passed."""
    known = signature(method).parameters
    usable = [name for name in options if _PARAMETERS.get(name, name) in known]
    wanted = passed(options)
    if unknown := [name for name in wanted if name not in usable]:
        names = ", ".join(map(option, usable))
        raise UsageError(f"{model} does not accept {option(unknown[0])}. It accepts {names}.")
    return {_PARAMETERS.get(name, name): value for name, value in wanted.items()}


@contextmanager
def naming_options(predictor: "Predictor", given: Iterable[str]) -> Iterator[None]:
    """Errors about settings name the options: num_beams becomes --num-beams. A setting of one word,
    such as `stop`, is an English word too: it is replaced only if it was given."""
    try:
        yield
    except UsageError as error:
        settings = predictor.settings_class
        fields = () if settings is None else settings.model_fields
        names = {name for name in fields if "_" in name}.union(given)
        pattern = rf"\b({'|'.join(sorted(names))})\b"
        message = str(error).replace(" in the settings", "")
        raise UsageError(re.sub(pattern, lambda found: option(found[0]), message)) from None
