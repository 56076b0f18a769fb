"""From what a user wrote to a recipe without gaps, and the data that a training reads.

    collect_values  a file, then flags, then `--set`: nested dicts, and where each key was given
    make_recipe     the typed recipe; every key is checked before any work is done
    prepare         read the data, choose what the recipe leaves open, write the data into the run
    with_processes  the recipe for the processes that torchrun has started

    data  →  size of the model  →  batch size  →  steps  →  learning rate, validation, saving …

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
from glassformer.tasks.recipe import (
    DATA_TO_LEARN_FROM,
    FinetuneConfig,
    Recipe,
    TrainingConfig,
    model_config,
)
from glassformer.tasks.task import Dataset, Defaults, Objective, Source
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


# --- what the recipe leaves open ---
# A larger model for more data, as many steps as the data is worth reading, and a learning rate for
# the model's width. Every value that the recipe gives is kept.

MOST_STEPS = 20_000  # unless the recipe asks for more: data larger than that is read in part
CONTINUED_FACTOR = 0.1  # of the usual learning rate; a larger one forgets more of the old data
PUBLISHED_RATE = 1.7e-4  # for AdamW; 7e-5 for a BERT of 768 dimensions
LORA_FACTOR = 10  # times PUBLISHED_RATE, since the product of the new matrices begins at zero
REFERENCE_WIDTH = 128  # up to which the learning rates of a task's defaults hold
MOST_WARMUP_STEPS = 100


def with_model(recipe: Recipe, source: Source) -> Recipe:
    """The recipe with every size of the model, and with what else the data decides."""
    decided = source.choices(recipe)
    for key, value in decided["model"].items():
        if recipe.model.get(key) not in (None, value):
            raise UsageError(
                f"model.{key} is {recipe.model[key]}, but the data determines it: it must be "
                f"{value}. Leave it out."
            )
    model = recipe.model | decided.pop("model")
    if recipe.is_open and recipe.start is None:
        # The largest preset that this much data is enough for.
        sizes = row(recipe.model_name).sizes
        model["preset"] = next(name for least, name in sizes if source.num_items >= least)
    values = recipe.model_dump(mode="json")
    named = {"name": recipe.model_name, "preset": model.get("preset")}
    config = model_config(model, is_complete=recipe.continues)
    source.preprocessing.check_model(config, "the data", "Leave it out of the recipe.")
    values["model"] = named | config.model_dump(mode="json")
    for section, keys in decided.items():
        values[section] |= keys
    return make_recipe(values)


def finetuning_defaults(defaults: Defaults, start: FinetuneConfig | None) -> Defaults:
    """The defaults of a training that begins with a trained model."""
    if start is None:
        return defaults
    if start.published:
        rate = PUBLISHED_RATE * (LORA_FACTOR if start.lora_rank else 1)
        return replace(defaults, optimizer="adamw", adamw=rate, ema=0.0)
    if start.continues:
        rates = {
            kind: getattr(defaults, kind) * CONTINUED_FACTOR for kind in ("muon", "adamw", "sgd")
        }
        return replace(defaults, **rates)
    return defaults


def with_training(recipe: Recipe, dataset: Dataset, defaults: Defaults) -> Recipe:
    """The recipe with every number of the training."""
    config = recipe.training
    batch_size = config.per_device_train_batch_size or dataset.default_batch_size
    per_epoch = dataset.batches(batch_size, config.seed).per_epoch
    steps = config.max_steps or _steps(config, per_epoch, defaults)
    choices = {
        "optimizer": defaults.optimizer,
        "per_device_train_batch_size": batch_size,
        "max_steps": steps,
        "learning_rate": _learning_rate(config, dataset, defaults),
        "weight_decay": defaults.weight_decay,
        "ema": defaults.ema,
    }
    choices |= intervals(config.model_copy(update=choices), dataset, steps)
    values = recipe.model_dump(mode="json")
    written = {key: value for key, value in values["training"].items() if value is not None}
    return make_recipe(values | {"training": choices | written})


def intervals(config: TrainingConfig, dataset: Dataset, steps: int) -> dict[str, int]:
    """The values that follow from the number of steps: warmup, and the intervals of validating and
    saving."""
    return {
        "warmup_steps": min(MOST_WARMUP_STEPS, steps // 10),
        "eval_steps": _eval_steps(config, dataset, steps),
        "save_steps": max(1, steps // 10),
    }


def _steps(config: TrainingConfig, batches_per_epoch: float, defaults: Defaults) -> int:
    per_epoch = batches_per_epoch / config.batches_per_update
    if config.num_train_epochs is not None:
        return max(1, round(config.num_train_epochs * per_epoch))
    return min(MOST_STEPS, max(defaults.fewest_steps, int(defaults.epochs * per_epoch)))


def _learning_rate(config: TrainingConfig, dataset: Dataset, defaults: Defaults) -> float:
    """Wider models need smaller steps: a rule of thumb that holds from 48 to 1,600 dimensions."""
    usual: float = getattr(defaults, config.optimizer or defaults.optimizer)
    width: int = getattr(dataset.model_config, "d_model", REFERENCE_WIDTH)
    return round(usual * min(1.0, (REFERENCE_WIDTH / width) ** 0.5), 6)


def _eval_steps(config: TrainingConfig, dataset: Dataset, steps: int) -> int:
    """How often to validate: twenty times, or less often if the data says so or it would take more
    than a sixth of the time, but at least four times. Reading an item costs a third of learning
    from it."""
    rows = (config.per_device_train_batch_size or 1) * config.batches_per_update
    items_per_step = rows * dataset.items_per_row
    affordable = round(2 * dataset.num_validation_items / items_per_step)
    return max(1, min(max(steps // dataset.most_validations, affordable), steps // 4))


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
        recipe = with_model(recipe, source)
        source.write(data, recipe, notify)
        source.preprocessing.save(data)
    dataset = task.dataset(folder / DATA, recipe)
    defaults = replace(task.defaults(recipe), **row(recipe.model_name).defaults)
    recipe = with_training(recipe, dataset, finetuning_defaults(defaults, recipe.start))
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
