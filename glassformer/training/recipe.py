"""A recipe: everything that decides how a training goes, in four sections.

    model:      which one, which preset, and every size of it
    data:       the files, and the part held out for validation
    tokenizer:  how text becomes tokens
    training:   steps, batches, learning rate, saving, machine

A key that is null is chosen from the data when training begins; the recipe that is saved with the
run has no such keys left.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from glassformer.config import (
    Config,
    Origins,
    Values,
    assign,
    flatten,
    parse,
    read_yaml,
)
from glassformer.data.corpus import CorpusConfig, DataConfig
from glassformer.data.labelled import LabelledConfig
from glassformer.data.pairs import PairsConfig
from glassformer.data.tagged import TaggedConfig
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import MODELS, entry
from glassformer.text.tokenizers import TokenizerConfig
from glassformer.training.sections import (
    DecidedTraining,
    FinetuneConfig,
    LabelLossConfig,
    MaskedConfig,
    PairTokenizerConfig,
    TrainingConfig,
    TranslationLossConfig,
)

Change = tuple[str, Any, Any]  # a key, what it was, what it is now

RECIPE = "recipe.yaml"  # in a run's folder


# These change what is written and when, never what the model becomes.
HARMLESS = {
    f"training.{key}" for key in ("save_steps", "save_total_limit", "logging_steps", "report_to")
}

NEVER_LEARNED = {"data.test_paths"}  # what a model is only judged by, when all is done

# These change what the model becomes, and can be changed by force on the way. The others would not
# fit the saved state.
CHANGEABLE = {
    f"training.{key}"
    for key in (
        *("max_steps", "per_device_train_batch_size", "learning_rate", "lr_scheduler_type"),
        *("min_lr_rate", "warmup_steps", "weight_decay", "adam_beta1", "adam_beta2"),
        *("max_grad_norm", "early_stopping", "seed", "eval_steps"),
        *("device", "precision", "num_threads"),
    )
}


class Recipe(Config):
    """The four sections. `model` is kept as written until the data has chosen its size."""

    model: dict[str, Any]
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    training: TrainingConfig = TrainingConfig()

    @property
    def model_name(self) -> str:
        return str(self.model["name"])

    @property
    def preset(self) -> str | None:
        return self.model.get("preset")

    @property
    def decided(self) -> DecidedTraining:
        return parse(DecidedTraining, self.training.model_dump(), RECIPE, prefix="training.")

    @property
    def is_open(self) -> bool:
        """Is the size of the model left to the data?"""
        return self.preset is None

    @property
    def start(self) -> FinetuneConfig | None:
        """The trained model that it begins with, if it does."""
        return getattr(self, "finetune", None)

    @property
    def test_paths(self) -> tuple[str, ...]:
        """What the best model is judged by at the end, if there is such data."""
        return getattr(self.data, "test_paths", ())

    def architecture(self) -> Config:
        """The model's typed config: its preset, then what the recipe says."""
        return _model_config(self.model)


class TextRecipe(Recipe):
    """Of text alone."""

    data: CorpusConfig


class MaskedRecipe(TextRecipe):
    """And what is hidden."""

    objective: MaskedConfig = MaskedConfig()


class ClassifyRecipe(Recipe):
    """Of labelled texts."""

    data: LabelledConfig
    objective: LabelLossConfig = LabelLossConfig()
    finetune: FinetuneConfig | None = None


class TagRecipe(Recipe):
    """Of sentences with a tag for every word."""

    data: TaggedConfig
    objective: LabelLossConfig = LabelLossConfig()
    finetune: FinetuneConfig | None = None


class TranslateRecipe(Recipe):
    """Of pairs of sentences."""

    data: PairsConfig
    tokenizer: PairTokenizerConfig = PairTokenizerConfig()
    objective: TranslationLossConfig = TranslationLossConfig()


RECIPES: dict[str, type[Recipe]] = {
    "language": TextRecipe,
    "masked": MaskedRecipe,
    "classify": ClassifyRecipe,
    "tag": TagRecipe,
    "translate": TranslateRecipe,
}


def given_values(
    path: Path | None,
    flags: Values,
    assignments: list[str],
    options: Mapping[str, str] | None = None,
) -> tuple[Values, Origins]:
    """What was said: a file, then flags, then `--set`, each overriding the one before.

    Also where each key was said: its line in the file, or the option, which `options` names for a
    flag. Flags that are None were not said.
    """
    values, origins = read_yaml(path) if path is not None else ({}, {})
    values = {name: section for name, section in values.items() if section is not None}
    _merge(values, flags)
    said = {key for key, value in flatten(flags) if value is not None}
    origins |= {key: option for key, option in (options or {}).items() if key in said}
    for assignment in assignments:
        assign(values, assignment)
        key = assignment.partition("=")[0].strip()
        origins[key] = f"--set {key}"
    return values, origins


def make_recipe(
    values: Values,
    where: str = "the recipe",
    origins: Origins | None = None,
    error: type[GlassformerError] = GlassformerError,
) -> Recipe:
    """The typed recipe; what is wrong with it is told as `error`, with its place."""
    cls = _recipe_class(values.get("model"))
    for section in values.keys() - cls.model_fields.keys():
        line = (origins or {}).get(section)
        place = f", line {line}" if isinstance(line, int) else ""
        raise error(f"unknown section {section} in {where}{place}. {_cure(section, cls)}")
    for section in cls.model_fields:
        if not isinstance(values.get(section) or {}, dict):
            raise error(f"{section} in {where} must be a section of keys, not a value.")
    if "name" not in values.get("model", {}):
        raise UsageError(
            "which model? Say, for example, glassformer train gpt --data notes.txt, or write "
            "model: {name: gpt} in the recipe."
        )
    data = values.get("data", {})
    keys: Any = cls.model_fields["data"].annotation
    places = {key for key in keys.model_fields if key in ("paths", "source_paths", "target_paths")}
    if not any(data.get(key) for key in places) and data.keys() <= keys.model_fields.keys():
        pairs = ", or --source FILE and --target FILE" if "source_paths" in places else ""
        raise UsageError(
            f"no data. Say --data FILE{pairs}, or write data: {{paths: [FILE]}} in the recipe."
        )
    recipe = parse(cls, values, where, origins, error=error)
    if recipe.is_open:  # then null says nothing, as everywhere
        said = {key: value for key, value in recipe.model.items() if value is not None}
        recipe = recipe.model_copy(update={"model": said})
    _model_config(recipe.model, where, origins, error)  # a misspelt key is an error before any work
    return recipe


def complete(recipe: Recipe) -> Values:
    """Every key with its value, defaults included; null where the data will choose."""
    values = recipe.model_dump(mode="json")
    named = {"name": recipe.model_name, "preset": recipe.preset}
    keys = recipe.architecture().model_dump(mode="json")
    if recipe.is_open:
        keys = {key: value if key in recipe.model else None for key, value in keys.items()}
    return values | {"model": named | keys}


def essence(recipe: Recipe) -> Values:
    """The keys on which the model depends, with their values."""
    values = flatten(recipe.model_dump(mode="json"))
    return {key: value for key, value in values if key not in HARMLESS | NEVER_LEARNED}


def refused(changes: Iterable[Change], is_forced: bool) -> list[Change]:
    """The changes with which a run cannot go on."""
    return [change for change in changes if not (is_forced and change[0] in CHANGEABLE)]


def in_words(changes: Iterable[Change], options: Mapping[str, str] | None = None) -> str:
    """`options` are the names of keys that were said by one."""
    names = options or {}
    return "; ".join(f"{names.get(key, key)} was {old!r}, now {new!r}" for key, old, new in changes)


def differences(saved: Recipe, given: Values) -> Iterator[Change]:
    """(key, saved value, given value) for each given key that says something else.

    A key that leaves the choice open, null or auto, says nothing.
    """
    name = (given.get("model") or {}).get("name")
    if name not in (None, saved.model_name):  # then there is nothing else to compare
        yield "model.name", saved.model_name, name
        return
    wanted = complete(saved)
    before = dict(flatten(wanted))
    _merge(wanted, given)
    now = dict(flatten(complete(make_recipe(wanted))))
    # A time limit has lowered the steps: saying both again is no change.
    same_limit = (given.get("training") or {}).get("time_limit") is not None
    planned = {"training.max_steps"} if same_limit else set[str]()
    for key, value in flatten(given):
        open_or_harmless = value in (None, "auto") or key in HARMLESS | planned
        if not open_or_harmless and before.get(key) != now[key]:
            yield key, before.get(key), now[key]


def _model_config(
    model: Values,
    where: str = "the recipe",
    origins: Origins | None = None,
    error: type[GlassformerError] = GlassformerError,
) -> Config:
    known = entry(str(model["name"]))
    # Until the data has chosen a size, the smallest is assumed.
    values = known.preset(str(model.get("preset") or known.smallest))
    said = {key: value for key, value in model.items() if key not in ("name", "preset")}
    return parse(known.config, values | said, where, origins, "model.", error)


def _recipe_class(model: Any) -> type[Recipe]:
    name = model.get("name") if isinstance(model, dict) else None
    return RECIPES[entry(str(name)).task] if name is not None else TextRecipe


def _keys(cls: type[Recipe], section: str) -> Iterable[str]:
    field = cls.model_fields.get(section)
    return getattr(field and field.annotation, "model_fields", {})


def _cure(section: str, cls: type[Recipe]) -> str:
    """What may have been meant: another section, or a key that stands in one."""
    if near := difflib.get_close_matches(section, cls.model_fields, n=1):
        return f"Did you mean {near[0]}?"
    for name, keys in (
        ("training", TrainingConfig.model_fields),
        ("data", CorpusConfig.model_fields),
        ("tokenizer", TokenizerConfig.model_fields),
        *(("model", known.config.model_fields) for known in MODELS.values()),
        ("objective", _keys(cls, "objective")),
        ("finetune", FinetuneConfig.model_fields),
    ):
        near = difflib.get_close_matches(section, keys, n=1, cutoff=0.8)
        if near and name in cls.model_fields:
            return f"Did you mean {name}.{near[0]}?"
    return f"There are: {', '.join(cls.model_fields)}."


def _merge(base: Values, over: Values) -> None:
    """Put what `over` says into `base`; a value where a section must be is left to complain of."""
    for key, value in over.items():
        if isinstance(value, dict):
            if base.get(key) is None:
                base[key] = {}
            if isinstance(inner := base[key], dict):
                _merge(inner, value)
        elif value is not None:
            base[key] = value
