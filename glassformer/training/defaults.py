"""Every choice that a recipe leaves open is made here; every value that it gives is kept.

    data  →  size of the model  →  batch size  →  steps  →  learning rate, validation, saving …

A larger model for more data, as many steps as the data is worth reading, and a learning rate for
the model's width.
"""

from glassformer.models import row
from glassformer.tasks.recipe import Recipe, TrainingConfig, model_config
from glassformer.tasks.task import Dataset, Habits, Source
from glassformer.training.recipes import make_recipe

MOST_STEPS = 20_000
WIDTH = 128  # up to which the learning rates of a task's habits hold


def with_model(recipe: Recipe, source: Source) -> Recipe:
    """The recipe with every size of the model, and with what else the data decides."""
    decided = source.decided(recipe)
    model = recipe.model | decided.pop("model")
    if recipe.is_open and recipe.start is None:
        model["preset"] = _preset(recipe.model_name, source.num_items)
    values = recipe.model_dump(mode="json")
    named = {"name": recipe.model_name, "preset": model.get("preset")}
    values["model"] = named | model_config(model).model_dump(mode="json")
    for section, keys in decided.items():
        values[section] |= keys
    return make_recipe(values)


def with_training(recipe: Recipe, dataset: Dataset, habits: Habits) -> Recipe:
    """The recipe with every number of the training."""
    config = recipe.training
    batch_size = config.per_device_train_batch_size or dataset.default_batch_size
    steps = config.max_steps or _steps(config, dataset, batch_size, habits)
    chosen = {
        "per_device_train_batch_size": batch_size,
        "max_steps": steps,
        "learning_rate": _learning_rate(config, dataset, habits),
        "weight_decay": habits.weight_decay,
        "ema": habits.ema,
        "warmup_steps": min(100, steps // 10),
        "eval_steps": _eval_steps(config, dataset, batch_size, steps),
        "save_steps": max(1, steps // 10),
    }
    values = recipe.model_dump(mode="json")
    given = {key: value for key, value in values["training"].items() if value is not None}
    return make_recipe(values | {"training": chosen | given})


def with_steps(recipe: Recipe, max_steps: int) -> Recipe:
    """The recipe with another number of steps; what depends on it is still open."""
    training = recipe.training.model_copy(update={"max_steps": max_steps})
    return recipe.model_copy(update={"training": training})


def _preset(model: str, num_items: int) -> str:
    """The largest preset that this much data is enough for."""
    return next(name for least, name in row(model).sizes if num_items >= least)


def _steps(config: TrainingConfig, dataset: Dataset, batch_size: int, habits: Habits) -> int:
    batches_per_epoch = dataset.batches(batch_size, config.seed).per_epoch
    per_epoch = batches_per_epoch / config.gradient_accumulation_steps
    if config.num_train_epochs is not None:
        return max(1, round(config.num_train_epochs * per_epoch))
    return min(MOST_STEPS, max(habits.fewest_steps, int(habits.epochs * per_epoch)))


def _learning_rate(config: TrainingConfig, dataset: Dataset, habits: Habits) -> float:
    """Wider models need smaller steps: a rule of thumb that holds from 48 to 1,600 dimensions."""
    usual = {"muon": habits.muon, "adamw": habits.adamw}[config.optimizer]
    width: int = getattr(dataset.model_config, "d_model", WIDTH)
    return round(usual * min(1.0, (WIDTH / width) ** 0.5), 6)


def _eval_steps(config: TrainingConfig, dataset: Dataset, batch_size: int, steps: int) -> int:
    """Twenty validations, or fewer if they would take more than a sixth of the time, but at least
    four. Reading an item costs a third of learning from it."""
    items_per_step = batch_size * dataset.items_per_row * config.gradient_accumulation_steps
    affordable = round(2 * dataset.num_validation_items / items_per_step)
    return max(1, min(max(steps // 20, affordable), steps // 4))
