"""The sections of a recipe that are about training: how long, by what loss, from what beginning."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from glassformer.config import Config, Count, several
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
    ema: float | None = Field(None, ge=0, lt=1)
    """Keep a running mean of the weights, with this decay (say 0.999); 0: the weights as such;
    null: chosen for the task."""
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
    ema: float = Field(ge=0, lt=1)
    eval_steps: Count = Field(ge=1)
    save_steps: Count = Field(ge=1)


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
    """Share of the goal that is spread over all labels; with several per text, over yes and no."""


class TranslationLossConfig(Config):
    """How translation is learned."""

    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Share of the probability that every token gets, not only the right one."""
    scheduled_sampling: float = Field(0.0, ge=0, le=1)
    """Share of the words before that are the model's own instead of the right ones
    (rnn-translator): so it learns to go on after a mistake."""


class PairTokenizerConfig(TokenizerConfig):
    """Of two languages."""

    separate: bool = False
    """A vocabulary for each side; else both share one."""


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
