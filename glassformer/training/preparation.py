"""From what a user wrote to a recipe without gaps, and the data that a training reads.

    collect_values  a file, then flags, then `--set`: nested dicts, and where each key was given
    make_recipe     the typed recipe; every key is checked before any work is done
    prepare         read the data, write it into the run, choose what is left open (`defaults.py`)
    with_processes  the recipe for the processes that torchrun has started

Keys of `model` stay as they were written until the data has chosen a preset: one that was given is
then still known from one that follows from the preset.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import yaml

from glassformer.config import Origins, Values, keys_of_section, located, nearest, parse, read_yaml
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import check_folder, new_folder
from glassformer.machine import facts, host, processes
from glassformer.models import MODELS, row
from glassformer.models.stack import StackConfig
from glassformer.progress import Notify, silently
from glassformer.tasks import task_of
from glassformer.tasks.recipe import DATA_TO_LEARN_FROM, Recipe, model_config
from glassformer.tasks.task import Objective
from glassformer.training.defaults import finetuning_defaults, with_model, with_training
from glassformer.training.finetuning import with_start
from glassformer.wording import counted

LENGTHS = tuple(f"training.{key}" for key in ("max_steps", "num_train_epochs", "time_limit"))


def collect_values(
    path: Path | None,
    flags: Values,
    assignments: Sequence[str],
    options: Mapping[str, str] | None = None,
) -> tuple[Values, Origins]:
    """What a user wrote: a file, then flags, then `--set`, each overriding the one before.

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
    keys = recipe_keys(None if name is None else str(name))
    _check_sections(values, keys, where, origins or {}, error)
    if name is None:
        raise UsageError(
            "no model. Pass one, as in glassformer train gpt --data notes.txt, or write "
            "model: {name: gpt} in the recipe."
        )
    _check_data(values.get("data") or {}, keys["data"])
    recipe = parse(task_of(str(name)).recipe, values, where, origins, error=error)
    if recipe.is_open:  # then null leaves a key open, as everywhere
        written = {key: value for key, value in recipe.model.items() if value is not None}
        recipe = recipe.model_copy(update={"model": written})
    # A misspelt key is an error before any work.
    model_config(recipe.model, where, origins, error, is_complete=recipe.continues)
    return recipe


def recipe_keys(model: str | None = None) -> dict[str, list[str]]:
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
    sections: dict[str, list[str]],
    where: str,
    origins: Origins,
    error: type[GlassformerError],
) -> None:
    for section, keys in values.items():
        if section not in sections:
            line = origins.get(section)
            at = f", line {line}" if isinstance(line, int) else ""
            cure = _what_was_meant(section, sections)
            raise error(f"unknown section {section}{located(where)}{at}. {cure}")
        if keys is not None and not isinstance(keys, dict):
            raise error(f"{section}{located(where)} must be a section of keys, not a value.")


def _what_was_meant(section: str, sections: dict[str, list[str]]) -> str:
    """Another section, or a key outside of its section."""
    if near := nearest(section, sections):
        return f"Did you mean {near}?"
    section_of = {key: name for name, keys in sections.items() for key in keys}
    if near := nearest(section, section_of, cutoff=0.8):
        return f"Did you mean {section_of[near]}.{near}?"
    return f"Known sections: {', '.join(sections)}."


def _check_data(data: Values, keys: list[str]) -> None:
    has_misspelt_key = not data.keys() <= set(keys)  # which is reported with its place later
    if has_misspelt_key or any(data.get(key) for key in DATA_TO_LEARN_FROM):
        return
    pairs = ", or --source FILE and --target FILE" if "source_paths" in keys else ""
    raise UsageError(
        f"no data. Pass --data FILE{pairs}, or write data: {{paths: [FILE]}} in the recipe."
    )


# --- the data of a run ---

DATA = "data"  # in a run's folder


def prepare(recipe: Recipe, folder: Path, notify: Notify) -> Objective:
    """Read the data, write it to `folder`/data, and make every choice that the recipe leaves
    open."""
    task = task_of(recipe.model_name)
    recipe = with_start(recipe)
    if recipe.start is not None:
        notify(f"starting from {', '.join(recipe.start.lineage)}")
    with new_folder(folder / DATA) as data:
        source = task.read(recipe, data, notify)
        recipe = make_recipe(with_model(recipe, source))
        source.write(data, recipe, notify)
        source.preprocessing.save(data)
    dataset = task.dataset(folder / DATA, recipe)
    defaults = replace(task.defaults(recipe), **row(recipe.model_name).defaults)
    defaults = finetuning_defaults(defaults, recipe.start)
    recipe = make_recipe(with_training(recipe, dataset, defaults))
    return task.objective(recipe, dataset)


def load_objective(recipe: Recipe, folder: Path) -> Objective:
    """The objective of a run, on the data that `prepare` left in `folder`."""
    check_folder(folder / DATA, cure="To start over, train it again with --force.")
    task = task_of(recipe.model_name)
    return task.objective(recipe, task.dataset(folder / DATA, recipe))


@contextmanager
def prepare_temporarily(recipe: Recipe, notify: Notify = silently) -> Iterator[Objective]:
    """The same as `prepare`, for a dry run: nothing is left behind."""
    with TemporaryDirectory(prefix="glassformer-") as folder:
        yield prepare(recipe, Path(folder), notify)


def use_machine(recipe: Recipe, notify: Notify = silently) -> host.Setup:
    """Apply the recipe's device, precision and threads. What is open is chosen when a run begins,
    and stays the same whenever it continues."""
    config = recipe.training
    return host.set_up(
        threads=config.num_threads,
        precision=None if config.precision == "auto" else config.precision,
        device=None if config.device == "auto" else config.device,
        width=recipe.model.get("d_model"),
        notify=notify,
        processes=config.devices,
    )


# --- the processes ---


def with_processes(recipe: Recipe) -> Recipe:
    """The recipe with the number of processes that torchrun has started, if it has; an error if
    there cannot be so many."""
    peer, config = processes.here(), recipe.training
    if peer is not None:
        asked = config.model_fields_set & {"devices", "num_nodes"}
        started = {"devices": peer.size_of_node, "num_nodes": peer.num_nodes}
        if wrong := [key for key in asked if getattr(config, key) not in (1, started[key])]:
            key = wrong[0]
            raise UsageError(
                f"--{key.replace('_', '-')} is {getattr(config, key)}, but torchrun has started "
                f"{counted(peer.size, 'process')}. Leave it out."
            )
        recipe = recipe.with_training(**started)
        config = recipe.training
    if config.num_processes > 1:
        _check(recipe)
    return recipe


def _check(recipe: Recipe) -> None:
    config = recipe.training
    if task_of(recipe.model_name).fit is not None:
        raise UsageError(f"{recipe.model_name} is trained in one process. Leave out --devices.")
    if config.strategy == "fsdp" and not issubclass(row(recipe.model_name).config, StackConfig):
        raise UsageError(
            f"--strategy fsdp divides the blocks of a Transformer: {recipe.model_name} cannot be "
            "divided. Use --strategy ddp."
        )
    if config.device == "mps":
        raise UsageError("an Apple GPU is one device. Leave out --devices, or use device cpu.")
    most, kind = _devices(config.device)
    if config.devices > most:
        raise UsageError(
            f"--devices is {config.devices}, but this machine has {counted(most, kind)}. Pass at "
            f"most --devices {most}."
        )


def _devices(device: str) -> tuple[int, str]:
    """How many of them there are; on a CPU each process needs a core."""
    if device != "cpu" and (count := torch.cuda.device_count()):
        return count, "GPU"
    return facts.usable_cores(facts.usable_cpus()), "core"


def share_batches(recipe: Recipe, before: Recipe) -> Recipe:
    """A recipe that continues `before` on another number of processes: an update consists of the
    same batches."""
    count, total = recipe.training.num_processes, before.training.batches_per_update
    if recipe.training.batches_per_update == total:
        return recipe
    if count == before.training.num_processes:
        return recipe  # the number of batches itself was changed, on purpose
    if total % count:
        raise GlassformerError(
            f"each update of this run is made of {counted(total, 'batch')}, which "
            f"{counted(count, 'process')} cannot share equally. Choose a number of "
            f"devices that divides {total}."
        )
    return recipe.with_training(gradient_accumulation_steps=total // count)
