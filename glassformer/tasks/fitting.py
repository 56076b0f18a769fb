"""The preprocessing of a training: fitted to its data, or taken over from the model it continues.

    recipe + texts    →  learn_tokenizer     →  Tokenizer          a training that begins anew
    recipe.finetune   →  kept_preprocessing  →  Preprocessing      one that continues a model

A training that continues a model is a recipe like any other (`finetune.head: kept`): its task takes
over the preprocessing of that model, and checks that the new data fits it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from glassformer.checkpoint.open import ModelPath, open_preprocessing
from glassformer.data.image_files import ImagesConfig
from glassformer.data.labels import brief, in_order, spelled_as
from glassformer.data.split import LabelledSplit
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing import Preprocessing
from glassformer.preprocessing.images import ImageInputs
from glassformer.progress import Notify, silently
from glassformer.tasks.recipe import Recipe, TokenizedRecipe
from glassformer.text.tokenizer_training import (
    TextSample,
    TokenizerConfig,
    default_vocab_size,
    num_bytes,
    train_tokenizer,
)
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import an, counted, readable_size

P = TypeVar("P", bound=Preprocessing)

SHOWN = 10  # characters or labels in an error


def learn_tokenizer(
    recipe: TokenizedRecipe,
    default: TokenizerConfig,
    texts: Iterable[str],
    special_tokens: Sequence[str] = (),
    prefix: str = "",
    is_rich: bool = False,
    one_in: int = 1,
    notify: Notify = silently,
) -> Tokenizer:
    """Learn the tokenizer that the recipe describes; `default` fills in what it leaves open.

    `texts` are all texts, one in `one_in` of them, or a `TextSample`; `prefix` is put before each.
    A rich tokenizer has as many pieces as whole words would need.
    """
    settings = {key: getattr(recipe.tokenizer, key) for key in TokenizerConfig.model_fields}
    config = default.model_copy(
        update={key: value for key, value in settings.items() if value not in (None, "auto")}
    )
    if config.kind == "auto":
        raise TypeError("the kind is still open")
    total_bytes, sample = _sample(texts, config.kind, notify)
    kind = "word" if is_rich and config.kind != "char" else config.kind
    size = config.vocab_size or getattr(recipe.architecture(), "vocab_size", None)
    size = size or default_vocab_size(kind, one_in * total_bytes)
    return train_tokenizer(config, (prefix + text for text in sample), size, special_tokens)


def _sample(texts: Iterable[str], kind: str, notify: Notify) -> tuple[int, Iterable[str]]:
    """The bytes of all texts, and those to learn from."""
    if not isinstance(texts, TextSample):
        if kind == "char":  # which may be many: they are read once, and their size does not matter
            return 0, texts
        texts = list(texts)
        return sum(map(num_bytes, texts)), texts
    if kind == "char":  # the characters of every text, in the sample or not
        return texts.num_bytes, ["".join(sorted(texts.alphabet))]
    if texts.is_partial:
        notify(f"tokenizer: trained on a sample of {readable_size(texts.num_kept_bytes)}")
    return texts.num_bytes, texts


def tokenizer_choices(recipe: Any, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """The sections of a recipe as a tokenizer decides them: its own, and the model's vocab_size."""
    section = {
        "kind": tokenizer.kind,
        "vocab_size": recipe.tokenizer.vocab_size or tokenizer.vocab_size,
        "lowercase": tokenizer.folds_case,
    }
    model = {} if recipe.model.get("vocab_size") else {"vocab_size": tokenizer.vocab_size}
    return {"model": model, "tokenizer": section}


# --- what a model that is trained further brings along ---


def kept_preprocessing(recipe: Recipe, kind: type[P]) -> P | None:
    """The preprocessing of the model that is trained further, with the tokens that are added to it;
    None if the training begins anew."""
    if recipe.finetune is None or not recipe.continues:
        return None
    start = recipe.finetune
    preprocessing = with_tokens(open_preprocessing(start.model), start.add_tokens, start.model)
    if not isinstance(preprocessing, kind):
        raise GlassformerError(
            f"{start.model} reads its data in another way than {an(recipe.model_name)} "
            "that is trained here, so it cannot be trained further."
        )
    return preprocessing


def kept_size(inputs: ImageInputs, notify: Notify) -> Callable[[Any], tuple[int, int]]:
    """Chooses the size of images for a model that is trained further: its own."""

    def choose(sizes: Any) -> tuple[int, int]:
        height, width = inputs.image_size
        if (sizes != inputs.image_size).any():
            notify(f"note: images are resized to {height}×{width}, the size that the model reads")
        return inputs.image_size

    return choose


def check_size(config: ImagesConfig, inputs: ImageInputs) -> dict[str, Any]:
    """The channels of the images that a trained model reads; another size is an error."""
    if config.image_size not in (None, inputs.image_size):
        height, width = inputs.image_size
        raise UsageError(
            f"the model reads images of {height}×{width} pixels, and --from continues it as it is. "
            "Leave out --image-size."
        )
    if config.num_channels not in (None, inputs.num_channels):
        raise UsageError(
            f"the model reads images with {counted(inputs.num_channels, 'channel')}. Leave out "
            "data.num_channels."
        )
    return {"image_size": None, "num_channels": inputs.num_channels}


def with_tokens(
    preprocessing: Preprocessing, tokens: Sequence[str], source: ModelPath
) -> Preprocessing:
    """The preprocessing of the model `source` with more tokens in its vocabulary."""
    if not tokens:
        return preprocessing
    if len(preprocessing.tokenizers) != 1:
        why = "has a tokenizer for each language" if preprocessing.tokenizers else "reads no text"
        raise UsageError(
            f"{source} {why}, so its vocabulary cannot be extended. Leave out --add-tokens."
        )
    ((name, tokenizer),) = preprocessing.tokenizers.items()
    return preprocessing.changed(**{name: tokenizer.with_tokens(tokens)})


def check_spelling(names: Sequence[str], tokenizer: Tokenizer, characters: set[str]) -> None:
    """Raise if the tokenizer of a trained model cannot spell these characters."""
    if tokenizer.kind != "char":
        return
    if unknown := tokenizer.unknown_characters("".join(sorted(characters))):
        shown = ", ".join(map(repr, unknown[:SHOWN]))
        more = f" and {len(unknown) - SHOWN:,} more" if len(unknown) > SHOWN else ""
        raise GlassformerError(
            f"{', '.join(names)}: the tokenizer of the model has no token for {shown}{more}. "
            "Remove these characters, or add each of them to its vocabulary with --add-tokens."
        )


def with_kept_labels(recipe: Recipe, split: LabelledSplit[Any]) -> LabelledSplit[Any]:
    """The split with the labels of the model that is trained further, in its order."""
    if not recipe.continues:
        return split
    labels, several = tuple(recipe.model["labels"]), bool(recipe.model.get("multi_label"))
    spellings, names = spelled_as(labels), ", ".join(recipe.data_names)
    if unknown := in_order(label for label in split.labels if label not in spellings):
        raise GlassformerError(
            f"{names}: the model does not know the labels {brief(unknown, SHOWN)}. It knows "
            f"{brief(labels, SHOWN)}. Rename or remove them, or train a new head with finetune."
        )
    if split.is_multi_label and not several:
        raise GlassformerError(
            f"{names} has several labels for an example, but the model predicts only one. Train a "
            "new head with finetune."
        )
    return replace(split, labels=labels, is_multi_label=several)
