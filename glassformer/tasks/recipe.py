"""A recipe: everything that determines a training, in sections.

    model:      which model, which preset, and every size of it
    data:       the files, and the part held out for validation
    training:   steps, batches, learning rate, saving, machine
    finetune:   the trained model to begin with, if any

A task adds sections of its own, such as `tokenizer` and `objective`. A key that is null is chosen
from the data when training begins; the recipe that is saved with the run has no such keys left.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from glassformer.config import Config, Count, Origins, StringTuple, Values, parse, several
from glassformer.errors import GlassformerError
from glassformer.models import row
from glassformer.options import OptimizerKind, ScheduleKind, StrategyKind
from glassformer.text.tokenizer_training import TokenizerConfig
from glassformer.wording import seconds_of

RECIPE = "recipe.yaml"  # in a run's folder
DATA_TO_LEARN_FROM = ("paths", "source_paths", "target_paths")  # keys of `data`; each task has some
LORA_RANK = 8  # if only `lora` is given


def _seconds(value: Any) -> Any:
    """15m is 900 seconds; a number is seconds already."""
    return seconds_of(value) if isinstance(value, str) else value


Page = Literal["tensorboard", "wandb"]
Duration = Annotated[float, BeforeValidator(_seconds)]


class Replan(Config):
    """The plan of a training with a time limit from `step` on, because it is faster or slower than
    expected: all values that depend on the number of steps."""

    step: Count = Field(ge=0)
    max_steps: Count = Field(ge=1)
    warmup_steps: Count = Field(ge=0)
    eval_steps: Count = Field(ge=1)
    save_steps: Count = Field(ge=1)

    @model_validator(mode="after")
    def _goes_on(self) -> "Replan":
        if self.max_steps < self.step:
            raise ValueError(f"a plan made at step {self.step} cannot end before it")
        return self


class TrainingConfig(Config):
    """The length, batches and optimizer of a training. Names follow Hugging Face's. `options.py`
    describes the keys that have an option; a key that is null is chosen."""

    max_steps: Count | None = Field(None, ge=1)
    num_train_epochs: float | None = Field(None, gt=0)
    per_device_train_batch_size: Count | None = Field(None, ge=1)
    gradient_accumulation_steps: Count = Field(1, ge=1)
    """Batches of each process per update: a larger batch in the same memory."""
    time_limit: Duration | None = Field(None, gt=0)
    """Seconds, or "15m", "1h30" …: training makes as many of max_steps as fit in this time."""
    replans: tuple[Replan, ...] = ()
    """The plans that replaced max_steps under a time limit. Written by the training: a recipe with
    these entries is trained in exactly these steps, whatever the clock says."""
    optimizer: OptimizerKind | None = None
    """muon: matrices by orthogonalised updates, the rest by AdamW; adamw: everything by AdamW; sgd:
    plain gradient steps, larger for embeddings; null: chosen for the model."""
    learning_rate: float | None = Field(None, gt=0)
    lr_scheduler_type: ScheduleKind = "linear"
    min_lr_rate: float = Field(0.0, ge=0, le=1)
    """Share of the learning rate that is left at the end."""
    warmup_steps: Count | None = Field(None, ge=0)
    weight_decay: float | None = Field(None, ge=0)
    """Weight decay of matrices, multiplied by the learning rate; null: chosen for the task."""
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    adam_beta2: float = Field(0.99, ge=0, lt=1)
    max_grad_norm: float = Field(1.0, ge=0)
    """Gradients are clipped to this norm; 0: never."""
    ema: float | None = Field(None, ge=0, lt=1)
    """Decay of a running mean of the weights, such as 0.999, which is kept instead of the weights;
    0: no mean; null: chosen for the task."""
    early_stopping: Count | None = Field(None, ge=1)
    seed: int = Field(0, ge=0, lt=2**31)
    eval_steps: Count | None = Field(None, ge=1)
    """Steps between validations, each of which also writes a sample."""
    save_steps: Count | None = Field(None, ge=1)
    """Steps between saved states of the training."""
    save_total_limit: Count = Field(2, ge=1)
    """Saved states that are kept; older ones are deleted."""
    snapshots: Count | None = Field(None, ge=0)
    """Snapshots of the weights that are kept for `inspect --over-time`; null: up to 12, with a
    total of at most 32 MB."""
    logging_steps: Count = Field(10, ge=1)
    report_to: Annotated[tuple[Page, ...], BeforeValidator(several)] = ("tensorboard",)
    """Where curves are recorded besides metrics.csv; wandb is an optional dependency."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    num_threads: Count | None = Field(None, ge=1)
    """CPU threads of a process; null: as many as are fastest on real steps, or the cores divided
    among several processes."""
    devices: Count = Field(1, ge=1)
    """Devices of a machine, each with a process of its own that learns from batches of its own; on
    a CPU, the number of processes."""
    num_nodes: Count = Field(1, ge=1)
    strategy: StrategyKind = "ddp"
    """What is divided among processes. ddp: the batches of an update; fsdp: also weights, gradients
    and optimizer."""
    checkpoint_activations: bool = False
    """Compute the activations of a block again in the backward pass instead of keeping them: less
    memory, a third more operations."""

    @property
    def num_processes(self) -> int:
        return self.devices * self.num_nodes

    @property
    def batches_per_update(self) -> int:
        """The batches of all processes together. The same number on fewer processes gives the same
        model, up to rounding."""
        return self.gradient_accumulation_steps * self.num_processes


class DecidedTraining(TrainingConfig):
    """The section `training` with every choice made, as a run needs it."""

    max_steps: Count
    per_device_train_batch_size: Count
    optimizer: OptimizerKind
    learning_rate: float
    warmup_steps: Count
    weight_decay: float
    ema: float
    eval_steps: Count
    save_steps: Count

    @property
    def plans(self) -> tuple[Replan, ...]:
        """The plan at the beginning, and those that replaced it."""
        names = ("max_steps", "warmup_steps", "eval_steps", "save_steps")
        return Replan(step=0, **{name: getattr(self, name) for name in names}), *self.replans

    def plan_at(self, step: int) -> Replan:
        """The plan in force at a step, made at this step or earlier."""
        return next(plan for plan in reversed(self.plans) if plan.step <= step)

    @property
    def last_step(self) -> int:
        """The step with which the training ends, as far as is known now."""
        return self.plans[-1].max_steps


class FinetuneConfig(Config):
    """The trained model to begin with, and how much of it may change. `options.py` describes the
    keys that have an option."""

    model: str
    """A trained model: its folder, its file, or its name on the Hugging Face hub."""
    head: Literal["new", "kept"] = "new"
    """new: the model gets a new head for another task; kept: it continues as it is."""
    digest: str | None = None
    """The SHA-256 of its weights; null: computed when training begins."""
    lineage: StringTuple = ()
    """The earlier training data of the model, the latest first; determined when training begins."""
    published: bool | None = None
    """The model was not trained from scratch here: it learns at a lower rate, by AdamW; null:
    determined when training begins."""
    freeze_layers: Count = Field(0, ge=0)
    freeze: bool = False
    layer_lr_decay: float | None = Field(None, gt=0, le=1)
    """The learning rate of each layer is that of the layer above times this; null: 0.9 if a
    published model gets a new head, otherwise 1."""
    lora: bool = False
    lora_rank: Count = Field(0, ge=0)
    """Learn the change of each matrix as a product of two thin ones; 0: train the matrix itself."""
    lora_alpha: float = Field(16.0, gt=0)
    lora_dropout: float = Field(0.0, ge=0, lt=1)
    use_rslora: bool = False
    """Scale the change by alpha / √rank instead of alpha / rank."""
    tokenizer: Literal["kept", "new"] = "kept"
    """new: learn another tokenizer from the data; the embeddings follow it."""
    add_tokens: StringTuple = ()

    @property
    def continues(self) -> bool:
        """Whether the whole model is trained further, with its head."""
        return self.head == "kept"

    @property
    def changes_vocabulary(self) -> bool:
        return bool(self.add_tokens) or self.tokenizer == "new"

    def _in_use(self, *names: str) -> str:
        """The settings that are in use, for people."""
        implied = {"lora_rank"} if self.lora and self.lora_rank == LORA_RANK else set()
        return " and ".join(name for name in names if getattr(self, name) and name not in implied)

    @model_validator(mode="before")
    @classmethod
    def _usual_rank(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("lora") is True and not values.get("lora_rank"):
            return values | {"lora_rank": LORA_RANK}
        return values

    @model_validator(mode="after")
    def _one_way(self) -> "FinetuneConfig":
        if self.lora_rank and (in_use := self._in_use("freeze", "freeze_layers")):
            raise ValueError(f"LoRA freezes the body already: leave out {in_use}")
        if self.freeze and self.continues:
            raise ValueError(
                "freeze trains only a new head, and the model keeps its own: use freeze_layers"
            )
        frozen = self._in_use("lora", "lora_rank", "freeze_layers")
        if self.changes_vocabulary and frozen:
            raise ValueError(
                f"the embeddings of a changed vocabulary must learn: leave out {frozen}"
            )
        if self.changes_vocabulary and not self.continues:
            raise ValueError("only train --from can change the vocabulary of a model")
        if self.add_tokens and self.tokenizer == "new":
            raise ValueError("add_tokens adds to the tokenizer of the model: leave out --tokenizer")
        return self


class Recipe(Config):
    """The sections that every recipe has. `model` is kept as written until the data has chosen a
    size."""

    model: dict[str, Any]
    data: Config
    training: TrainingConfig = TrainingConfig()
    finetune: FinetuneConfig | None = None

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
        """Whether the size of the model is left to the data."""
        return self.preset is None and not self.continues

    @property
    def start(self) -> FinetuneConfig | None:
        """The trained model that it begins with, if any."""
        return self.finetune

    @property
    def continues(self) -> bool:
        """Whether a trained model is trained further, as it is."""
        return self.finetune is not None and self.finetune.continues

    @property
    def keeps_tokenizer(self) -> bool:
        """Whether texts are read with the tokenizer of the model that is trained further."""
        return self.continues and self.finetune is not None and self.finetune.tokenizer == "kept"

    @property
    def data_names(self) -> tuple[str, ...]:
        """The files to learn from."""
        return tuple(getattr(self.data, "names", getattr(self.data, "paths", ())))

    @property
    def test_paths(self) -> tuple[str, ...]:
        """Data on which the best model is evaluated at the end, if any."""
        return getattr(self.data, "test_paths", ())

    def with_training(self, **keys: Any) -> Self:
        """The recipe with other values of its section `training`."""
        return self.model_copy(update={"training": self.training.model_copy(update=keys)})

    def architecture(self) -> Config:
        """The model's typed config: its preset, then the keys of the recipe."""
        return model_config(self.model, is_complete=self.continues)


class TokenizedRecipe(Recipe):
    """A recipe whose data is text."""

    tokenizer: TokenizerConfig = TokenizerConfig()


def model_config(
    model: Values,
    where: str = "the recipe",
    origins: Origins | None = None,
    error: type[GlassformerError] = GlassformerError,
    is_complete: bool = False,
) -> Config:
    """The typed config of a section `model`; a complete one depends on no preset."""
    about = row(str(model["name"]))
    # Until the data has chosen a size, the smallest is assumed.
    values = {} if is_complete else about.preset(str(model.get("preset") or about.smallest))
    sizes = {key: value for key, value in model.items() if key not in ("name", "preset")}
    return parse(about.config, values | sizes, where, origins, "model.", error)
