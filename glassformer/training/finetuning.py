"""The model that a training begins with: new weights, or those of a trained model under a new
head, all or part of which may learn."""

from copy import deepcopy
from pathlib import Path

from torch import nn

from glassformer.checkpoint.model_folder import WEIGHTS
from glassformer.config import Values
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import row
from glassformer.models.labeller import Labeller
from glassformer.models.pretrained_body import body_config, load_body
from glassformer.nn.lora import add_lora, merge_lora
from glassformer.pretrained.open_model import open_config, open_model, weights_digest
from glassformer.tasks.recipe import FinetuneConfig, Recipe

DROPOUT = 0.1  # the least when a trained model is fine-tuned


def on_top_of(folder: Path, task: str) -> Values:
    """The sections of a recipe that give the model in a folder a new head."""
    return {"model": _with_new_head(folder, task), "finetune": {"model": str(folder)}}


def _with_new_head(folder: Path, task: str) -> Values:
    name, config = open_config(folder)
    built, values = body_config(name, config, task)
    values.pop("context_length", None)  # the texts decide whether it must be longer
    values |= row(built).when_finetuned
    # There are fewer examples than there was text: a little more regularisation.
    return {"name": built, **values, "dropout": max(DROPOUT, values["dropout"])}


def new_model(recipe: Recipe, is_fresh: bool = True) -> nn.Module:
    """The model of a complete recipe; unless it is fresh, weights from a saved state follow."""
    model = row(recipe.model_name).model(recipe.architecture())
    if recipe.start is not None and isinstance(model, Labeller):
        if is_fresh:
            _begin_with(model, recipe.start)
        _freeze(model, recipe.start)
    return model


def model_to_keep(recipe: Recipe, model: nn.Module) -> nn.Module:
    """What LoRA has learned is folded into the matrices: what is saved is an ordinary model."""
    if recipe.start is None or not recipe.start.lora_rank:
        return model
    kept = deepcopy(model)
    merge_lora(kept)
    return kept


def learning_shares(recipe: Recipe, model: nn.Module) -> dict[str, float] | None:
    """The parameters, by name, that learn at a part of the learning rate. With layer_lr_decay d
    the head learns at 1, the last layer at d, the one before it at d² …"""
    start = recipe.start
    if start is None or start.layer_lr_decay == 1 or not isinstance(model, Labeller):
        return None
    depth = {name: _layer(name) for name, _ in model.named_parameters()}
    layers = max(depth.values()) + 1
    depth |= {name: layers - 1 for name in depth if "final_norm" in name.split(".")}
    body = model.body
    inside = {id(p) for p in body.parameters()} if body is not None else set[int]()
    return {
        name: start.layer_lr_decay ** (layers - depth[name])
        for name, parameter in model.named_parameters()
        if id(parameter) in inside
    }


def with_digest(recipe: Recipe) -> Recipe:
    """The recipe of a fine-tuning, with the checksum of the weights that it begins with."""
    if recipe.start is None:
        return recipe
    digest = weights_digest(recipe.start.model)
    if recipe.start.digest not in (None, digest):
        raise GlassformerError(
            f"{Path(recipe.start.model) / WEIGHTS} does not match the checksum finetune.digest. "
            "Pass the original model, or leave out the digest."
        )
    start = recipe.start.model_copy(update={"digest": digest})
    return recipe.model_copy(update={"finetune": start})


def _begin_with(model: Labeller, start: FinetuneConfig) -> None:
    source = open_model(start.model).model
    if start.digest not in (None, weights_digest(start.model)):
        raise GlassformerError(
            f"{Path(start.model) / WEIGHTS} has changed since this training began. Start over with "
            "--force."
        )
    load_body(model, source)


def _freeze(model: Labeller, start: FinetuneConfig) -> None:
    if model.body is None:
        return
    if start.lora_rank:
        add_lora(model.body, start.lora_rank, start.lora_alpha)
    elif start.freeze:
        model.body.requires_grad_(False)
    elif start.freeze_layers:
        layers = max(_layer(name) for name, _ in model.body.named_parameters())
        if start.freeze_layers > layers:
            raise UsageError(
                f"--freeze-layers is {start.freeze_layers}, but the model has {layers} layers. Use "
                "--freeze to freeze all of them."
            )
        for name, parameter in model.body.named_parameters():
            if _layer(name) <= start.freeze_layers and not name.startswith("final_norm"):
                parameter.requires_grad_(False)


def _layer(name: str) -> int:
    """0 for embeddings, 1 for the first block …; what stands outside the blocks is 0, too."""
    parts = name.split(".")
    return int(parts[parts.index("blocks") + 1]) + 1 if "blocks" in parts else 0
