"""Models with a linear head: what all that predict labels, and all that predict tokens, share.

    Labeller        logits = head(dropout(represent(ids)))     (B, C) per text, (B, T, C) per token
    LanguageModel   logits = head(hidden(ids))                 (B, T, V): the next token

A labeller may be built on a pre-trained model: `body_config` gives the shape of its body,
`load_body` the weights.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from pydantic import model_validator
from torch import Tensor, nn

from glassformer.config import Config
from glassformer.errors import GlassformerError
from glassformer.models import MODELS, built_on, name_of, row
from glassformer.models.stack import Rate, StackConfig, initialize
from glassformer.nn.layers import Dropout
from glassformer.nn.linear import Linear
from glassformer.nn.positions import Positions
from glassformer.wording import an


class HeadedModel(nn.Module):
    """A model whose last layer is `head`. With `tie_weights`, its weight is the embedding's."""

    head: nn.Linear
    vocabulary_layers: ClassVar[tuple[str, ...]] = ()
    """Layers with an output for each token of a vocabulary, which may be quantised."""

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def token_vectors(self) -> Tensor:
        """The vector of each token before any layer: (V, D)."""
        return self.get_parameter("embedding.weight")

    @staticmethod
    def needed(vocab_size: int | None, model: str) -> int:
        """The size of the vocabulary, which only a recipe may leave open."""
        if vocab_size is None:
            raise GlassformerError(f"{model} needs vocab_size, the number of tokens.")
        return vocab_size


# --- labels ---


class LabelsConfig(Config):
    """The labels that a model can predict."""

    labels: tuple[str, ...] = ()
    """Names of the labels; empty in a recipe: taken from the data."""
    multi_label: bool = False
    """Any number of labels may apply at once: a yes/no decision for each."""
    head_dropout: Rate = 0.1
    """Dropout on the input of the head."""

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        for label, count in Counter(self.labels).most_common(1):
            if count > 1:
                raise ValueError(f'the label "{label}" is given twice')
        return self


class Labeller(HeadedModel, ABC):
    """A linear head with one output per label, on what `represent` returns."""

    default_context: ClassVar[int | None] = 512
    """Longest context that is chosen for it by default; None: texts of any length."""
    default_words: ClassVar[int | None] = None
    """Number of words in its vocabulary by default; None: as the amount of text suggests."""
    is_causal: ClassVar[bool] = False
    """Each position sees only itself and the past."""
    reads_words_alone: ClassVar[bool] = False
    """What a token adds depends on its own words only, not on what it took up from the others."""
    body_name: ClassVar[str | None] = None
    """Name of the attribute that holds the part that may come pre-trained."""

    temperature: Tensor
    """Logits are divided by it to give calibrated probabilities."""

    def __init__(self, config: LabelsConfig, width: int, context_length: int | None) -> None:
        super().__init__()
        if not config.labels:
            raise GlassformerError("a classifier needs labels, the names of its classes.")
        self.config = config
        self.labels = config.labels
        self.context_length = context_length
        self.head_dropout = Dropout(config.head_dropout)
        self.head = Linear(width, len(config.labels))
        initialize(self.head, "bert", 1)
        self.register_buffer("temperature", torch.tensor(1.0))

    def see(self, texts: Sequence[Tensor], words: Sequence[str] = ()) -> None:
        """Learn what follows from the texts alone, before the first step. `words` is the vocabulary
        if it consists of words, with "" for special tokens."""

    @abstractmethod
    def represent(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """The input of the head."""

    @property
    def body(self) -> nn.Module | None:
        """The part that may come pre-trained, if there is one."""
        return None if self.body_name is None else self.get_submodule(self.body_name)

    def forward(self, ids: Tensor, is_text: Tensor | None = None) -> Tensor:
        """Logits of the labels. Padding is on the right, where `is_text` is False."""
        return self.head(self.head_dropout(self.represent(ids, is_text)))

    def contributions(self, ids: Tensor) -> Tensor | None:
        """How much each token of a text (T,) adds to each logit: (T, C). With the bias of the head,
        they sum to the logits. None: the logits are no sum over tokens."""
        return None

    def probabilities(self, logits: Tensor) -> Tensor:
        """The probability of each label. They sum to one, unless any number of labels may apply."""
        scaled = logits / self.temperature
        return scaled.sigmoid() if self.config.multi_label else scaled.softmax(dim=-1)


class TextClassifier(Labeller):
    """Labels a text: `represent` returns (B, D), `forward` (B, C)."""


class TokenTagger(Labeller):
    """Labels every token: `represent` returns (B, T, D), `forward` (B, T, C)."""


# --- the next token ---


class LanguageModel(HeadedModel, ABC):
    """Predicts the next token at every position: hidden states, and a linear head on them.

    The two are separate so that a loss can compute logits in chunks, and decoding only the last.
    """

    vocabulary_layers: ClassVar[tuple[str, ...]] = ("head",)
    is_causal: ClassVar[bool] = True
    """Each position sees only itself and the past."""

    context_length: int
    """Maximum number of tokens."""

    @abstractmethod
    def hidden(self, ids: Tensor, state: Any = None) -> Tensor:
        """The input of the head: (B, T) → (B, T, D). With a state, `ids` continue it."""

    @abstractmethod
    def start(self, memory: None, padding: Tensor, capacity: int) -> Any:
        """An empty state for `len(padding)` rows; row b starts with `padding[b]` padding tokens."""

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token at every position: (B, T) → (B, T, V)."""
        return self.head(self.hidden(ids))

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Continue a state with `ids` (B, T); return the logits of the next token, (B, V)."""
        return self.head(self.hidden(ids, state)[:, -1]), state


# --- a labeller on a pre-trained model ---


def body_config(name: str, pretrained: Config, task: str) -> tuple[str, dict[str, Any]]:
    """The model for `task` to build on the pre-trained model `name`, and the values of its config.

    The values are complete: no preset of that model may change the shape of its body. Only the
    context may be another one.
    """
    built = built_on(name, task)
    if built is None:
        rows = MODELS.values()
        bodies = dict.fromkeys(row.body for row in rows if row.body and row.task == task)
        raise GlassformerError(
            f"{an(name)} cannot be fine-tuned for the task {task}."
            + (f" Use a pre-trained {' or '.join(bodies)}." if bodies else "")
        )
    target = row(built)
    fields = target.config.model_fields
    shape = pretrained.explicit() if isinstance(pretrained, StackConfig) else dict(pretrained)
    values = {key: value for key, value in shape.items() if key in fields}
    for preset in target.presets.values():
        values |= {key: fields[key].default for key in preset if key not in values}
    return built, values


def load_body(model: nn.Module, pretrained: nn.Module) -> None:
    """Copy the weights of a pre-trained model into the body of a model that is built on it."""
    target_name, source_name = name_of(model), name_of(pretrained)
    body = model.body if isinstance(model, Labeller) else None
    source = next((part for part in pretrained.modules() if type(part) is type(body)), None)
    if body is None or source is None or row(target_name).body != source_name:
        raise GlassformerError(
            f"{an(target_name)} cannot start from the weights of {an(source_name)}."
        )
    state = source.state_dict().items()
    weights = {name: weight for name, weight in state if not name.startswith("head.")}
    _fit_positions(body, weights)
    ours, theirs = (
        {name: tuple(weight.shape) for name, weight in tensors.items()}
        for tensors in (body.state_dict(), weights)
    )
    for name in {**ours, **theirs}:
        if ours.get(name) != theirs.get(name):
            raise GlassformerError(
                f"the pre-trained model has a different shape: {name} is "
                f"{theirs.get(name, 'absent')} there and {ours.get(name, 'absent')} here. "
                "Use the settings of the pre-trained model."
            )
    body.load_state_dict(weights)


def _fit_positions(body: nn.Module, weights: dict[str, Tensor]) -> None:
    """Adapt the weights of positions to the context of a body."""
    for name, part in body.named_modules():
        if isinstance(part, Positions):
            saved = {
                key: weights[f"{name}.{key}"]
                for key in part.state_dict()
                if f"{name}.{key}" in weights
            }
            if saved:
                weights |= {f"{name}.{key}": weight for key, weight in part.fitted(saved).items()}
