"""From files to data that a training can read, and a recipe without gaps; and the machine for it.

files → read → size of the model → write, cut for that model → steps, learning rate …
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from glassformer.errors import UsageError
from glassformer.files import check_folder, new_folder
from glassformer.machine.host import Setup, silently
from glassformer.machine.host import prepare as prepare_machine
from glassformer.models import row
from glassformer.tasks import task_of
from glassformer.tasks.recipe import FinetuneConfig, Recipe, TrainingConfig, model_config
from glassformer.tasks.task import Dataset, Defaults, Objective, Say, Source
from glassformer.training.finetuning import with_start
from glassformer.training.recipes import make_recipe

# --- defaults ---
# Every choice that a recipe leaves open is made here; every value that it gives is kept.
#
#     data  →  size of the model  →  batch size  →  steps  →  learning rate, validation, saving …
#
# A larger model for more data, as many steps as the data is worth reading, and a learning rate for
# the model's width.

MOST_STEPS = 20_000
GENTLER = 0.1  # times the usual learning rate, for a model that is trained further
PUBLISHED = 1.7e-4  # learning rate of published models, by AdamW
BOLDER = 10  # times as large with LoRA, whose matrices begin at random and at zero
WIDTH = 128  # up to which the learning rates of a task's defaults hold


def with_model(recipe: Recipe, source: Source) -> Recipe:
    """The recipe with every size of the model, and with what else the data decides."""
    decided = source.decided(recipe)
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


def gentler(defaults: Defaults, start: FinetuneConfig | None) -> Defaults:
    """The defaults of a training that begins with a trained model."""
    if start is None:
        return defaults
    if start.published:
        rate = PUBLISHED * (BOLDER if start.lora_rank else 1)
        return replace(defaults, optimizer="adamw", adamw=rate, ema=0.0)
    if start.continues:
        rates = {kind: getattr(defaults, kind) * GENTLER for kind in ("muon", "adamw", "sgd")}
        return replace(defaults, **rates)
    return defaults


def with_training(recipe: Recipe, dataset: Dataset, defaults: Defaults) -> Recipe:
    """The recipe with every number of the training."""
    config = recipe.training
    batch_size = config.per_device_train_batch_size or dataset.default_batch_size
    per_epoch = dataset.batches(batch_size, config.seed).per_epoch
    steps = config.max_steps or _steps(config, per_epoch, defaults)
    chosen = {
        "optimizer": defaults.optimizer,
        "per_device_train_batch_size": batch_size,
        "max_steps": steps,
        "learning_rate": _learning_rate(config, dataset, defaults),
        "weight_decay": defaults.weight_decay,
        "ema": defaults.ema,
    }
    chosen |= intervals(config.model_copy(update=chosen), dataset, steps)
    values = recipe.model_dump(mode="json")
    given = {key: value for key, value in values["training"].items() if value is not None}
    return make_recipe(values | {"training": chosen | given})


def intervals(config: TrainingConfig, dataset: Dataset, steps: int) -> dict[str, int]:
    """What follows from the number of steps: the rise of the learning rate, and how often to
    validate and to save."""
    return {
        "warmup_steps": min(100, steps // 10),
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
    width: int = getattr(dataset.model_config, "d_model", WIDTH)
    return round(usual * min(1.0, (WIDTH / width) ** 0.5), 6)


def _eval_steps(config: TrainingConfig, dataset: Dataset, steps: int) -> int:
    """Twenty validations, or fewer if the data says so or they would take more than a sixth of the
    time, but at least four. Reading an item costs a third of learning from it."""
    rows = (config.per_device_train_batch_size or 1) * config.batches_per_update
    items_per_step = rows * dataset.items_per_row
    affordable = round(2 * dataset.num_validation_items / items_per_step)
    return max(1, min(max(steps // dataset.most_validations, affordable), steps // 4))


# --- preparation ---

DATA = "data"  # in a run's folder


def prepare(recipe: Recipe, folder: Path, say: Say) -> Objective:
    """Read the data, write it to `folder`/data, and make every choice that the recipe leaves
    open."""
    task = task_of(recipe.model_name)
    recipe = with_start(recipe)
    if recipe.start is not None:
        say(f"starting from {', '.join(recipe.start.lineage)}")
    with new_folder(folder / DATA) as data:
        source = task.read(recipe, data, say)
        recipe = with_model(recipe, source)
        source.write(data, recipe, say)
        source.preprocessing.save(data)
    dataset = task.dataset(folder / DATA, recipe)
    defaults = replace(task.defaults(recipe), **row(recipe.model_name).defaults)
    recipe = with_training(recipe, dataset, gentler(defaults, recipe.start))
    return task.objective(recipe, dataset)


def prepared(recipe: Recipe, folder: Path) -> Objective:
    """What `prepare` left in `folder`, for a run with a complete recipe."""
    check_folder(folder / DATA, cure="To start over, train it again with --force.")
    task = task_of(recipe.model_name)
    return task.objective(recipe, task.dataset(folder / DATA, recipe))


@contextmanager
def rehearsed(recipe: Recipe, say: Say = silently) -> Iterator[Objective]:
    """As `prepare`, for a dry run: nothing is left behind."""
    with TemporaryDirectory(prefix="glassformer-") as folder:
        yield prepare(recipe, Path(folder), say)


def use_machine(recipe: Recipe, say: Say = silently) -> Setup:
    """Apply the recipe's device, precision and threads. What is open is chosen when a run begins,
    and stays the same whenever it continues."""
    given = recipe.training
    return prepare_machine(
        threads=given.num_threads,
        precision=None if given.precision == "auto" else given.precision,
        device=None if given.device == "auto" else given.device,
        width=recipe.model.get("d_model"),
        notify=say,
        processes=given.devices,
    )
