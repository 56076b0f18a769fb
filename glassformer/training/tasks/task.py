"""What a training is about: its data, its loss, how it is judged.

    files  →  task  →  batch(n)  →  loss(model, batch)        again and again
                       validate(model), sample(model)         now and then

One class per objective, whatever the model: next token, masked token, classify, tag, translate.
What the recipe leaves open is chosen from the amount of data: a larger model for more of it, a
learning rate for the model's width, as many steps as the data is worth reading.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from torch import Tensor, nn

from glassformer.models import entry
from glassformer.text.tokenizers import Tokenizer
from glassformer.training.recipe import Recipe, make_recipe

Say = Callable[[str], None]

DATA = "data"  # in a run's folder
FEWEST_STEPS, MOST_STEPS = 300, 20_000


class Judgement(Protocol):
    """How good a model was found to be on held-out data."""

    @property
    def loss(self) -> float: ...

    def columns(self) -> dict[str, float]:
        """By the names that they have in metrics.csv."""

    def headline(self) -> str:
        """For the model card."""


@dataclass(frozen=True)
class Habits:
    """How a task is usually trained, where the recipe does not say."""

    epochs: int
    fewest_steps: int = FEWEST_STEPS
    muon: float = 7e-3
    """The learning rate with that optimizer, of models up to 128 wide."""
    adamw: float = 3e-3
    weight_decay: float = 0.1
    ema: float = 0.0


@dataclass(frozen=True)
class Task(ABC):
    """Data that has been prepared, a recipe with every choice made, and what to do with both."""

    recipe: Recipe
    said: Recipe
    """The recipe as it was given, with its gaps."""
    tokenizer: Tokenizer | None
    """None: the data is no text."""

    @property
    def second_tokenizer(self) -> Tokenizer | None:
        """Of a target that has a vocabulary of its own."""
        return None

    # --- from files ---

    @classmethod
    @abstractmethod
    def prepare(cls, recipe: Recipe, folder: Path, say: Say) -> Self:
        """Read the data, write it to `folder`/data as the training needs it, fill the gaps."""

    @classmethod
    @abstractmethod
    def open(cls, recipe: Recipe, folder: Path) -> Self:
        """What `prepare` left in `folder`."""

    # --- how much there is ---

    @property
    @abstractmethod
    def num_tokens(self) -> int: ...

    @property
    @abstractmethod
    def num_validation_tokens(self) -> int: ...

    @abstractmethod
    def tokens_per_item(self, model: Any) -> float:
        """Of one item of a batch, for a model with this config."""

    @abstractmethod
    def items_per_batch(self, model: Any) -> int:
        """If nobody says how many."""

    @abstractmethod
    def amount(self) -> str:
        """The data in a few words."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """The data in numbers."""

    # --- learning ---

    @abstractmethod
    def batch(self, number: int, most: int | None = None) -> Any:
        """Batch `number` of the training, a pure function of it; of at most so many items."""

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> Tensor: ...

    def build(self, is_fresh: bool = True) -> nn.Module:
        """The model as it begins; if it is not fresh, weights from a saved state will follow."""
        return entry(self.recipe.model_name).model(self.recipe.architecture())

    def to_keep(self, model: nn.Module) -> nn.Module:
        """The model to save for use, from one that learns."""
        return model

    def learning_shares(self, model: nn.Module) -> dict[str, float] | None:
        """The parameters, by name, that learn at a part of the learning rate."""
        return None

    # --- judging ---

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """What metrics.csv has of each validation."""

    @property
    def measure(self) -> str:
        """What decides which model is the best; `val_…` is one of the columns."""
        return "loss"

    @abstractmethod
    def validate(self, model: Any) -> Judgement: ...

    @abstractmethod
    def sample(self, model: Any, step: int) -> str:
        """Something to look at while the model learns."""

    @abstractmethod
    def trials(self, folder: Path | str) -> Sequence[tuple[str | Path, ...]]:
        """Commands with which to try the model."""

    def is_better(self, columns: dict[str, float], than: dict[str, float] | None) -> bool:
        """The measure decides; the loss, where that is equal."""
        sign = 1 if self.measure == "loss" else -1

        def order(found: dict[str, float]) -> tuple[float, float]:
            return sign * found[f"val_{self.measure}"], found["val_loss"]

        return than is None or order(columns) < order(than)

    # --- gaps ---

    @property
    @abstractmethod
    def habits(self) -> Habits: ...

    @property
    def tokens_per_step(self) -> int:
        config = self.recipe.decided
        batch = config.per_device_train_batch_size * config.gradient_accumulation_steps
        return round(batch * self.tokens_per_item(self.recipe.architecture()))

    def with_steps(self, max_steps: int) -> Self:
        """The same with another number of steps, and with all that was chosen for it."""
        training = self.said.training.model_copy(update={"max_steps": max_steps})
        return replace(self, said=self.said.model_copy(update={"training": training})).completed()

    def completed(self) -> Self:
        """With a recipe that has no gaps. Only what nobody said is chosen."""
        recipe = self.said
        named = dict(recipe.model)
        if recipe.is_open and recipe.start is None:
            sizes = entry(recipe.model_name).sizes
            named["preset"] = next(name for least, name in sizes if self.num_tokens >= least)
        named |= self.known_of_model(named)
        values = recipe.model_dump(mode="json") | {"model": named}
        model: Any = make_recipe(values).architecture()
        values["model"] = {
            "name": recipe.model_name,
            "preset": named.get("preset"),
            **model.model_dump(mode="json"),
        }
        if self.tokenizer is not None:
            values["tokenizer"]["kind"] = self.tokenizer.kind
            size = recipe.tokenizer.vocab_size or self.tokenizer.vocab_size
            values["tokenizer"]["vocab_size"] = size
            values["tokenizer"]["lowercase"] = self.tokenizer.folds_case
        values["training"] = self._completed_training(values["training"], model)
        return replace(self, recipe=make_recipe(values))

    def known_of_model(self, said: dict[str, Any]) -> dict[str, Any]:
        """Keys of the model that the data decides."""
        if said.get("vocab_size") or self.tokenizer is None:
            return {}
        return {"vocab_size": self.tokenizer.vocab_size}

    def _completed_training(self, said: dict[str, Any], model: Any) -> dict[str, Any]:
        chosen = {key: value for key, value in said.items() if value is not None}
        batch = chosen.setdefault("per_device_train_batch_size", self.items_per_batch(model))
        tokens = batch * self.tokens_per_item(model) * chosen["gradient_accumulation_steps"]
        steps = chosen.setdefault("max_steps", self._steps(chosen, tokens))
        # Wider models want smaller steps: a rule of thumb that holds from 48 to 1,600 dimensions.
        rate = getattr(self.habits, chosen["optimizer"]) * min(1.0, (128 / model.d_model) ** 0.5)
        chosen.setdefault("learning_rate", round(rate, 6))
        chosen.setdefault("weight_decay", self.habits.weight_decay)
        chosen.setdefault("ema", self.habits.ema)
        chosen.setdefault("warmup_steps", min(100, steps // 10))
        # Reading costs a third of learning; validation may take a sixth of the time.
        affordable = round(2 * self.num_validation_tokens / tokens)
        chosen.setdefault("eval_steps", max(1, min(max(steps // 20, affordable), steps // 4)))
        chosen.setdefault("save_steps", max(1, steps // 10))
        return said | chosen

    def steps_per_epoch(self, chosen: dict[str, Any], tokens_per_step: float) -> float:
        """To read the data once."""
        return self.num_tokens / tokens_per_step

    def _steps(self, chosen: dict[str, Any], tokens_per_step: float) -> int:
        per_epoch = self.steps_per_epoch(chosen, tokens_per_step)
        if epochs := chosen.get("num_train_epochs"):
            return max(1, round(epochs * per_epoch))
        worth = int(self.habits.epochs * per_epoch)
        return min(MOST_STEPS, max(self.habits.fewest_steps, worth))
