"""From what a user wrote to a typed recipe: a file, then flags, then `--set`, checked and named."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from glassformer.config import Origins, Values, keys_of_section, located, nearest, parse, read_yaml
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import MODELS, row
from glassformer.tasks import task_of
from glassformer.tasks.recipe import Recipe, model_config

DATA_TO_LEARN_FROM = ("paths", "source_paths", "target_paths")  # keys of `data`; each task has some
LENGTHS = tuple(f"training.{key}" for key in ("max_steps", "num_train_epochs", "time_limit"))


def given_values(
    path: Path | None,
    flags: Values,
    assignments: Sequence[str],
    options: Mapping[str, str] | None = None,
) -> tuple[Values, Origins]:
    """What a user gave: a file, then flags, then `--set`, each overriding the one before.

    Also where each key was given: its line in the file, or the option, which `options` names for
    the flags that come from one.
    """
    values, origins = read_yaml(path) if path is not None else ({}, {})
    values = {name: section for name, section in values.items() if section is not None}
    merge(values, flags)
    origins |= options or {}
    for assignment in assignments:
        assign(values, assignment)
        key = assignment.partition("=")[0].strip()
        origins[key] = f"--set {key}"
    training = values.get("training")
    has_length = any(isinstance(origins.get(key), str) for key in LENGTHS)  # not by the file
    if isinstance(training, dict) and has_length:
        training.pop("replans", None)  # those of the file were made for its own length
    return values, origins


def assign(values: Values, assignment: str) -> None:
    """Apply one `--set a.b=value` to nested dicts. The value is read as YAML, as in a recipe."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip():
        raise UsageError(
            f"--set {assignment} is not KEY=VALUE. "
            "Pass, for example, --set training.learning_rate=1e-3."
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


def merge(base: Values, over: Values) -> None:
    """Put the values of `over` into `base`. A value where a section must be is left as it is, for
    `make_recipe` to report."""
    for key, value in over.items():
        if isinstance(value, dict):
            if base.get(key) is None:
                base[key] = {}
            if isinstance(inner := base[key], dict):
                merge(inner, value)
        elif value is not None:
            base[key] = value


def make_recipe(
    values: Values,
    where: str = "the recipe",
    origins: Origins | None = None,
    error: type[GlassformerError] = GlassformerError,
) -> Recipe:
    """The typed recipe; a problem is reported as `error`, with its place."""
    model = values.get("model")
    name = model.get("name") if isinstance(model, dict) else None
    keys = known_keys(None if name is None else str(name))
    _check_sections(values, keys, where, origins or {}, error)
    if name is None:
        raise UsageError(
            "no model. Pass one, as in glassformer train gpt --data notes.txt, or write "
            "model: {name: gpt} in the recipe."
        )
    _check_data(values.get("data") or {}, keys["data"])
    recipe = parse(task_of(str(name)).recipe, values, where, origins, error=error)
    if recipe.is_open:  # then null leaves a key open, as everywhere
        given = {key: value for key, value in recipe.model.items() if value is not None}
        recipe = recipe.model_copy(update={"model": given})
    # A misspelt key is an error before any work.
    model_config(recipe.model, where, origins, error, is_complete=recipe.continues)
    return recipe


def known_keys(model: str | None = None) -> dict[str, list[str]]:
    """The sections of a recipe for this model, each with its keys; without a name, of all models
    together."""
    sections: dict[str, dict[str, None]] = {}
    for name in MODELS if model is None else [model]:
        recipe = task_of(name).recipe
        for section in recipe.model_fields:
            keys = dict.fromkeys(keys_of_section(recipe, [section]))
            sections.setdefault(section, {}).update(keys)
        sections["model"] |= dict.fromkeys(("name", "preset", *row(name).config.model_fields))
    return {section: list(keys) for section, keys in sections.items()}


def complete(recipe: Recipe) -> Values:
    """Every key with its value, defaults included; null where the data will choose."""
    values = recipe.model_dump(mode="json")
    named = {"name": recipe.model_name, "preset": recipe.preset}
    keys = recipe.architecture().model_dump(mode="json")
    if recipe.is_open:
        keys = {key: value if key in recipe.model else None for key, value in keys.items()}
    return values | {"model": named | keys}


def _check_sections(
    values: Values,
    known: dict[str, list[str]],
    where: str,
    origins: Origins,
    error: type[GlassformerError],
) -> None:
    for section, keys in values.items():
        if section not in known:
            line = origins.get(section)
            place = f", line {line}" if isinstance(line, int) else ""
            cure = _what_was_meant(section, known)
            raise error(f"unknown section {section}{located(where)}{place}. {cure}")
        if keys is not None and not isinstance(keys, dict):
            raise error(f"{section}{located(where)} must be a section of keys, not a value.")


def _what_was_meant(section: str, known: dict[str, list[str]]) -> str:
    """Another section, or a key outside of its section."""
    if near := nearest(section, known):
        return f"Did you mean {near}?"
    sections = {key: name for name, keys in known.items() for key in keys}
    if near := nearest(section, sections, cutoff=0.8):
        return f"Did you mean {sections[near]}.{near}?"
    return f"Known sections: {', '.join(known)}."


def _check_data(data: Values, known: list[str]) -> None:
    has_misspelt_key = not data.keys() <= set(known)  # which is reported with its place later
    if has_misspelt_key or any(data.get(key) for key in DATA_TO_LEARN_FROM):
        return
    pairs = ", or --source FILE and --target FILE" if "source_paths" in known else ""
    raise UsageError(
        f"no data. Pass --data FILE{pairs}, or write data: {{paths: [FILE]}} in the recipe."
    )
