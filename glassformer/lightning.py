"""The training of a recipe as a LightningModule, for people who have a Trainer of their own.

    from glassformer.lightning import Module
    from lightning import Trainer

    module = Module("recipe.yaml")
    Trainer(max_epochs=1, gradient_clip_val=1.0).fit(module)
    module.save("model")

Needs the extra `lightning`. Data, model, loss, optimizer and schedule are those of the recipe; an
epoch has all of its steps. What the Trainer has settings for is left to it.
"""

from os import PathLike
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from lightning import LightningModule
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader

from glassformer.checkpoint.model_folder import save_model
from glassformer.config import read_yaml
from glassformer.tasks.recipe import Recipe
from glassformer.training.finetuning import model_to_keep, new_model
from glassformer.training.optimizer_and_schedule import optimizer_of, rate_of
from glassformer.training.preparation import make_recipe, prepare


class Module(LightningModule):
    def __init__(self, recipe: "Recipe | str | PathLike[str]") -> None:
        """Read the data of a recipe, or of the file of one, and make its model."""
        super().__init__()
        if not isinstance(recipe, Recipe):
            recipe = make_recipe(read_yaml(Path(recipe))[0], str(recipe))
        folder = Path(mkdtemp(prefix="glassformer-"))
        finalize(self, rmtree, folder, ignore_errors=True)  # it is there as long as this module
        self.objective = prepare(recipe, folder, print)
        preprocessing = self.objective.dataset.preprocessing
        self.model = new_model(self.objective.recipe, preprocessing=preprocessing)
        self.objective.initialize(self.model)

    def train_dataloader(self) -> Any:
        config = self.objective.config
        indices = range(config.max_steps * config.gradient_accumulation_steps)
        return DataLoader(indices, batch_size=None, collate_fn=self.objective.batch)  # type: ignore[arg-type]

    def val_dataloader(self) -> Any:
        return DataLoader(range(1), batch_size=None)  # type: ignore[arg-type]  # all in one step

    def training_step(self, batch: Any, number: int) -> Tensor:
        loss = self.objective.loss(self.model, batch)
        self.log("train_loss", loss, batch_size=1)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        scores = self.objective.columns(self.objective.validate(self.model))
        self.log_dict(scores, batch_size=1)

    def configure_optimizers(self) -> Any:
        config = self.objective.config
        optimizer = optimizer_of(self.objective, self.model)
        schedule = LambdaLR(optimizer, lambda step: rate_of(config, step))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def save(self, folder: "str | PathLike[str]") -> None:
        """Write a model folder, with which every verb works."""
        kept = model_to_keep(self.objective.recipe, self.model)
        save_model(Path(folder), kept, self.objective.dataset.preprocessing)
