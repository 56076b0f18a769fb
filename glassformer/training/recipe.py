"""A recipe: everything that decides how a training goes, in four sections.

    model:      which one, which preset, and every size of it
    data:       the files, and the part held out for validation
    tokenizer:  how text becomes tokens
    training:   steps, batches, learning rate, saving, machine

A key that is null is chosen from the data when training begins; the recipe that is saved with the
run has no such keys left.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from glassformer.config import (
    Config,
    Count,
    Origins,
    Values,
    assign,
    flatten,
    parse,
    read_yaml,
    several,
)
from glassformer.data.corpus import CorpusConfig
from glassformer.data.labelled import LabelledConfig
from glassformer.data.tagged import TaggedConfig
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import MODELS, entry
from glassformer.text.tokenizers import TokenizerConfig
from glassformer.training.optim import OptimizerKind
from glassformer.training.schedule import ScheduleKind


def _seconds(value: Any) -> Any:
    """15m is 900 seconds; a number is seconds already."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+|\d*\.\d+)\s*([smhd]?)", value.strip())
    if match is None:
        raise ValueError("say a number of seconds, or 90s, 15m, 2h, 1d")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


Page = Literal["tensorboard", "wandb"]
Duration = Annotated[float, BeforeValidator(_seconds)]

Change = tuple[str, Any, Any]  # a key, what it was, what it is now

RECIPE = "recipe.yaml"  # in a run's folder


class TrainingConfig(Config):
    """How long, in what batches, and how fast to learn. Names follow Hugging Face's."""

    max_steps: Count | None = Field(None, ge=1)
    """Updates of the weights; null: chosen from the amount of text."""
    num_train_epochs: float | None = Field(None, gt=0)
    """Times through the data, where max_steps is not said."""
    per_device_train_batch_size: Count | None = Field(None, ge=1)
    """Windows of text, or examples, read at once; null: as many as make a good batch."""
    gradient_accumulation_steps: Count = Field(1, ge=1)
    """Batches added up before each update: a larger batch in the same memory."""
    time_limit: Duration | None = Field(None, gt=0)
    """About so many seconds (or "15m", "2h"): max_steps is lowered until the schedule fits."""
    optimizer: OptimizerKind = "muon"
    """muon: matrices by orthogonalised updates, the rest by AdamW; adamw: everything by AdamW."""
    learning_rate: float | None = Field(None, gt=0)
    """The highest one; null: chosen from the model's width."""
    lr_scheduler_type: ScheduleKind = "linear"
    min_lr_rate: float = Field(0.0, ge=0, le=1)
    """Share of the learning rate that is left at the end."""
    warmup_steps: Count | None = Field(None, ge=0)
    weight_decay: float | None = Field(None, ge=0)
    """How fast matrices shrink, times the learning rate; null: chosen for the task."""
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    adam_beta2: float = Field(0.99, ge=0, lt=1)
    max_grad_norm: float = Field(1.0, ge=0)
    """Gradients longer than this are shortened to it; 0: never."""
    ema: float = Field(0.0, ge=0, lt=1)
    """Keep a running mean of the weights, with this decay (say 0.999); 0: the weights as such."""
    early_stopping: Count | None = Field(None, ge=1)
    """Stop after so many validations without a better one; null: never."""
    seed: int = Field(0, ge=0, lt=2**31)
    eval_steps: Count | None = Field(None, ge=1)
    """Validate, and write a sample of text, every so many steps."""
    save_steps: Count | None = Field(None, ge=1)
    """Save the state of the training every so many steps."""
    save_total_limit: Count = Field(2, ge=1)
    """Saved states that are kept; older ones are deleted."""
    logging_steps: Count = Field(10, ge=1)
    report_to: Annotated[tuple[Page, ...], BeforeValidator(several)] = ("tensorboard",)
    """Where the curves go besides metrics.csv; wandb is an extra."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    num_threads: Count | None = Field(None, ge=1)
    """CPU threads; null: as many as this machine has cores."""


class DecidedTraining(TrainingConfig):
    """The same with every choice made: what a run is begun with."""

    max_steps: Count = Field(ge=1)
    per_device_train_batch_size: Count = Field(ge=1)
    learning_rate: float = Field(gt=0)
    warmup_steps: Count = Field(ge=0)
    weight_decay: float = Field(ge=0)
    eval_steps: Count = Field(ge=1)
    save_steps: Count = Field(ge=1)


# These change what is written and when, never what the model becomes.
HARMLESS = {
    f"training.{key}" for key in ("save_steps", "save_total_limit", "logging_steps", "report_to")
}


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


class MaskedConfig(Config):
    """How tokens are hidden in masked-token training."""

    mlm_probability: float = Field(0.15, gt=0, lt=1)
    """Share of the tokens that are to be guessed: of these 80 % are hidden, 10 % replaced by
    others, 10 % left as they are."""
    whole_word_masking: bool = False
    """Hide all the pieces of a word, or none."""


class LabelLossConfig(Config):
    """How labels are learned."""

    class_weights: bool = False
    """Rare labels count more: each by the inverse of its frequency."""
    label_smoothing: float = Field(0.0, ge=0, lt=1)


class FinetuneConfig(Config):
    """What a training begins with instead of nothing, and how much of it may change."""

    model: str
    """The folder of a trained model."""
    digest: str | None = None
    """The SHA-256 of its weights; null: taken when the training begins."""
    freeze_layers: Count = Field(0, ge=0)
    """The embedding and so many of the first layers stay as they are."""
    freeze: bool = False
    """All but the new head stays as it is."""
    layer_lr_decay: float = Field(1.0, gt=0, le=1)
    """Each layer learns this much slower than the one above it."""
    lora_rank: Count = Field(0, ge=0)
    """Learn the difference to each matrix as a product of two thin ones; 0: learn all of it."""
    lora_alpha: float = Field(16.0, gt=0)

    @model_validator(mode="after")
    def _one_way(self) -> "FinetuneConfig":
        if self.lora_rank and (self.freeze or self.freeze_layers):
            raise ValueError("lora_rank leaves all of the body as it is: say it without freeze")
        return self


class Recipe(Config):
    """The four sections. `model` is kept as written until the data has chosen its size."""

    model: dict[str, Any]
    data: CorpusConfig
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

    def architecture(self) -> Config:
        """The model's typed config: its preset, then what the recipe says."""
        return _model_config(self.model)


class MaskedRecipe(Recipe):
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


RECIPES: dict[str, type[Recipe]] = {
    "language": Recipe,
    "masked": MaskedRecipe,
    "classify": ClassifyRecipe,
    "tag": TagRecipe,
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
    if not data.get("paths") and data.keys() <= keys.model_fields.keys():
        raise UsageError("no data. Say --data FILE, or write data: {paths: [FILE]} in the recipe.")
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
    return {key: value for key, value in values if key not in HARMLESS}


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
    return RECIPES[entry(str(name)).task] if name is not None else Recipe


def _cure(section: str, cls: type[Recipe]) -> str:
    """What may have been meant: another section, or a key that stands in one."""
    if near := difflib.get_close_matches(section, cls.model_fields, n=1):
        return f"Did you mean {near[0]}?"
    for name, keys in (
        ("training", TrainingConfig.model_fields),
        ("data", CorpusConfig.model_fields),
        ("tokenizer", TokenizerConfig.model_fields),
        *(("model", known.config.model_fields) for known in MODELS.values()),
        ("objective", (MaskedConfig if cls is MaskedRecipe else LabelLossConfig).model_fields),
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
