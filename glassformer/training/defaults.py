"""The defaults of a training: what the recipe leaves open is chosen here, from the data.

    data  →  size of the model  →  batch size  →  steps  →  learning rate, validation, saving …

A larger model for more data, as many steps as the data is worth reading, and a learning rate for
the model's width. Every value that the recipe gives is kept. A task has defaults of its own
(`defaults` in `tasks/classify/task.py`, for example); a key with the same default for all data has
it in `tasks/recipe.py`.
"""

from dataclasses import replace

from glassformer.config import Values
from glassformer.errors import UsageError
from glassformer.models import row
from glassformer.tasks.recipe import FinetuneConfig, Recipe, TrainingConfig, model_config
from glassformer.tasks.task import Dataset, Defaults, Source

MOST_STEPS = 20_000  # unless the recipe asks for more: data larger than that is read in part
CONTINUED_FACTOR = 0.1  # of the usual learning rate; a larger one forgets more of the old data
PUBLISHED_RATE = 1.7e-4  # for AdamW; 7e-5 for a BERT of 768 dimensions
LORA_FACTOR = 10  # times PUBLISHED_RATE, since the product of the new matrices begins at zero
REFERENCE_WIDTH = 128  # up to which the learning rates of a task's defaults hold
MOST_WARMUP_STEPS = 100


def with_model(recipe: Recipe, source: Source) -> Values:
    """The recipe's values with every size of the model, and with what else the data decides."""
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
    return values


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


def with_training(recipe: Recipe, dataset: Dataset, defaults: Defaults) -> Values:
    """The recipe's values with every number of the training."""
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
    return values | {"training": choices | written}


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
