"""How recipes differ, key by key, and with which differences a run can continue."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from glassformer.config import Values, flatten
from glassformer.tasks.recipe import Recipe
from glassformer.training.recipes import complete, make_recipe, merge

Change = tuple[str, Any, Any]  # a key, its value before, its value now

# These change what is written and when, never what the model becomes.
HARMLESS = {
    f"training.{key}"
    for key in ("save_steps", "save_total_limit", "snapshots", "logging_steps", "report_to")
}

# These change who computes what: the model stays the same up to rounding.
DIVISION = {
    f"training.{key}" for key in ("devices", "num_nodes", "strategy", "checkpoint_activations")
}
REPLANS = "training.replans"
ACCUMULATION = "training.gradient_accumulation_steps"

NEVER_LEARNED = {"data.test_paths"}  # the model is only evaluated on it, at the end

# These change what the model becomes, and can be changed by force. The others would not fit the
# saved state.
CHANGEABLE = {
    f"training.{key}"
    for key in (
        *("max_steps", "per_device_train_batch_size", "learning_rate", "lr_scheduler_type"),
        *("min_lr_rate", "warmup_steps", "weight_decay", "adam_beta1", "adam_beta2"),
        *("max_grad_norm", "early_stopping", "seed", "eval_steps", "time_limit", "replans"),
        *("device", "precision", "num_threads"),
    )
}


def essence(recipe: Recipe, step: int) -> Values:
    """The keys on which the model depends at a step, with their values."""
    values = dict(flatten(recipe.model_dump(mode="json")))
    values[REPLANS] = [plan for plan in values[REPLANS] if plan["step"] <= step]
    values[ACCUMULATION] = recipe.training.batches_per_update  # on however many processes
    ignored = HARMLESS | NEVER_LEARNED | DIVISION
    return {key: value for key, value in values.items() if key not in ignored}


def changes_between(before: Values, now: Values) -> list[Change]:
    return [
        (key, before.get(key), now.get(key))
        for key in before | now
        if before.get(key) != now.get(key)
    ]


def differences(saved: Recipe, given: Values) -> Iterator[Change]:
    """The given keys that change the saved recipe. A key that leaves the choice open, null or
    auto, changes nothing."""
    name = (given.get("model") or {}).get("name")
    if name not in (None, saved.model_name):  # then there is nothing else to compare
        yield "model.name", saved.model_name, name
        return
    wanted = complete(saved)
    before = dict(flatten(wanted))
    merge(wanted, given)
    now = dict(flatten(complete(make_recipe(wanted))))
    # A time limit has lowered the steps: giving both again is no change.
    has_limit = (given.get("training") or {}).get("time_limit") is not None
    ignored = HARMLESS | DIVISION | ({"training.max_steps"} if has_limit else set())
    for key, value in flatten(given):
        is_open = value in (None, "auto")
        if not is_open and key not in ignored and before.get(key) != now[key]:
            yield key, before.get(key), now[key]


def refused(changes: Iterable[Change], is_forced: bool) -> list[Change]:
    """The changes with which a run cannot continue."""
    return [change for change in changes if not (is_forced and change[0] in CHANGEABLE)]


def in_words(changes: Iterable[Change], options: Mapping[str, str] | None = None) -> str:
    """`options` has the keys that were given by an option, with its name."""
    names = options or {}
    return "; ".join(
        f"{names.get(key, key)} was {old!r}, is now {new!r}" for key, old, new in changes
    )
