"""What a training that continues a model takes over from it: how inputs are read, its labels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from glassformer.checkpoint.open import Source, open_preprocessing
from glassformer.data.image_files import ImagesConfig
from glassformer.data.labels import in_order, joined, spelled_as
from glassformer.data.split import LabelledSplit
from glassformer.errors import GlassformerError, UsageError
from glassformer.preprocessing import Preprocessing
from glassformer.preprocessing.image import ImageInputs
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Say
from glassformer.text.tokenizers import Tokenizer
from glassformer.wording import an, counted

P = TypeVar("P", bound=Preprocessing)
SHOWN = 10


def kept_preprocessing(recipe: Recipe, kind: type[P]) -> P | None:
    """The preprocessing of the model that is trained further, with the tokens that are added to it;
    None if the training begins anew."""
    if recipe.finetune is None or not recipe.continues:
        return None
    start = recipe.finetune
    found = with_tokens(open_preprocessing(start.model), start.add_tokens, start.model)
    if not isinstance(found, kind):
        raise GlassformerError(
            f"{recipe.finetune.model} reads its data in another way than {an(recipe.model_name)} "
            "that is trained here, so it cannot be trained further."
        )
    return found


def kept_size(known: ImageInputs, say: Say) -> Callable[[Any], tuple[int, int]]:
    """Chooses the size of images for a model that is trained further: its own."""

    def choose(sizes: Any) -> tuple[int, int]:
        height, width = known.image_size
        if (sizes != known.image_size).any():
            say(f"note: images are resized to {height}×{width}, the size that the model reads")
        return known.image_size

    return choose


def check_size(config: ImagesConfig, known: ImageInputs) -> dict[str, Any]:
    """The channels of the images that a trained model reads; another size is an error."""
    if config.image_size not in (None, known.image_size):
        height, width = known.image_size
        raise UsageError(
            f"the model reads images of {height}×{width} pixels, and --from continues it as it is. "
            "Leave out --image-size."
        )
    if config.num_channels not in (None, known.num_channels):
        raise UsageError(
            f"the model reads images with {counted(known.num_channels, 'channel')}. Leave out "
            "data.num_channels."
        )
    return {"image_size": None, "num_channels": known.num_channels}


def with_tokens(found: Preprocessing, tokens: Sequence[str], source: Source) -> Preprocessing:
    if not tokens:
        return found
    if len(found.tokenizers) != 1:
        why = "has a tokenizer for each language" if found.tokenizers else "reads no text"
        raise UsageError(
            f"{source} {why}, so its vocabulary cannot be extended. Leave out --add-tokens."
        )
    ((name, tokenizer),) = found.tokenizers.items()
    return found.changed(**{name: tokenizer.with_tokens(tokens)})


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
    known, names = spelled_as(labels), ", ".join(recipe.data_names)
    if unknown := in_order(label for label in split.labels if label not in known):
        raise GlassformerError(
            f"{names}: the model does not know the labels {joined(unknown, SHOWN)}. It knows "
            f"{joined(labels, SHOWN)}. Rename or remove them, or train a new head with finetune."
        )
    if split.is_multi_label and not several:
        raise GlassformerError(
            f"{names} has several labels for an example, but the model predicts only one. Train a "
            "new head with finetune."
        )
    return replace(split, labels=labels, is_multi_label=several)
