"""The beginning of a run: all that comes before the first step, and needs no Lightning.

So a mistake in the data is told at once, and not after seconds of importing.
"""

from collections.abc import Callable

from torch import nn

from glassformer.errors import GlassformerError
from glassformer.models import entry
from glassformer.models.language_model import LanguageModel
from glassformer.runtime import Setup
from glassformer.runtime import prepare as prepare_machine
from glassformer.training.prepare import prepare
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder


def begin(recipe: Recipe, run: RunFolder, say: Callable[[str], None]) -> None:
    """Set up a run: tokens, tokenizer, and the recipe with every choice made.

    A run that is there already goes when the new one is set up.
    """
    with run.begin():
        ready = prepare(recipe, run.path, say)
        setup = use_machine(recipe)
        chosen = {
            "device": setup.device,
            "precision": setup.precision,
            "num_threads": setup.threads,
        }
        training = ready.recipe.training.model_copy(update=chosen)
        run.write_recipe(ready.recipe.model_copy(update={"training": training}))


def use_machine(recipe: Recipe) -> Setup:
    """Put the recipe's device, precision and threads into force; what is open is chosen."""
    said = recipe.training
    return prepare_machine(
        threads=said.num_threads,
        precision=None if said.precision == "auto" else said.precision,
        device=None if said.device == "auto" else said.device,
    )


def build_model(recipe: Recipe) -> LanguageModel:
    model = entry(recipe.model_name).model(recipe.model_config_with())
    if not isinstance(model, LanguageModel):
        raise GlassformerError(f"{recipe.model_name} is not a language model.")
    return model


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
