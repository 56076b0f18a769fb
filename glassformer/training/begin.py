"""The beginning of a run: all that comes before the first step, and needs no Lightning.

So a mistake in the data is told at once, and not after seconds of importing.
"""

from typing import TextIO

from torch import nn

from glassformer.errors import GlassformerError
from glassformer.models import entry
from glassformer.models.language_model import LanguageModel
from glassformer.runtime import Setup
from glassformer.runtime import prepare as prepare_machine
from glassformer.runtime.host import silently
from glassformer.training.outcome import Outcome
from glassformer.training.prepare import Say, prepare
from glassformer.training.progress import Progress
from glassformer.training.recipe import Recipe
from glassformer.training.run_folder import RunFolder


def begin(recipe: Recipe, run: RunFolder, say: Say) -> None:
    """Set up a run: tokens, tokenizer, and the recipe with every choice made.

    A run that is there already goes when the new one is set up.
    """
    with run.begin() as folder:
        ready = prepare(recipe, folder, say)
        setup = use_machine(recipe, say)
        chosen = {
            "device": setup.device,
            "precision": setup.precision,
            "num_threads": setup.threads,
        }
        training = ready.recipe.training.model_copy(update=chosen)
        RunFolder(folder).write_recipe(ready.recipe.model_copy(update={"training": training}))


def train(recipe: Recipe, run: RunFolder, stream: TextIO) -> Outcome:
    """Begin a run and see it through."""
    begin(recipe, run, Progress(stream, 1).say)
    return resume(run, stream)


def resume(run: RunFolder, stream: TextIO) -> Outcome:
    """Go on from the last saved state of a run, or from its beginning if there is none."""
    from glassformer.training.fit import fit  # here, because Lightning takes seconds to import

    return fit(run, stream)


def use_machine(recipe: Recipe, say: Say = silently) -> Setup:
    """Put the recipe's device, precision and threads into force; what is open is chosen."""
    said = recipe.training
    return prepare_machine(
        threads=said.num_threads,
        precision=None if said.precision == "auto" else said.precision,
        device=None if said.device == "auto" else said.device,
        notify=say,
    )


def build_model(recipe: Recipe) -> LanguageModel:
    model = entry(recipe.model_name).model(recipe.architecture())
    if not isinstance(model, LanguageModel):
        raise GlassformerError(f"{recipe.model_name} is not a language model.")
    return model


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
