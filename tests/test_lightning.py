"""The training of a recipe under a Trainer of Lightning."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import glassformer
from glassformer.config import write_yaml
from glassformer.tasks.recipe import Recipe

Make = Callable[..., Recipe]


@pytest.mark.skipif(find_spec("lightning") is None, reason="the extra lightning is not installed")
@pytest.mark.filterwarnings("ignore")  # Lightning advises and warns
def test_a_trainer_teaches_the_model_of_a_recipe(tmp_path: Path, tiny: Make) -> None:
    from lightning import Trainer

    from glassformer.lightning import Module

    (tmp_path / "recipe.yaml").write_text(write_yaml(tiny(max_steps=30, learning_rate=0.02)))
    module = Module(tmp_path / "recipe.yaml")
    before = module.objective.validate(module.model).loss
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        gradient_clip_val=1.0,
        accumulate_grad_batches=module.objective.config.gradient_accumulation_steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module)
    assert trainer.global_step == 30
    assert trainer.callback_metrics["val_loss"] < before - 0.3
    module.save(tmp_path / "model")
    assert glassformer.load(tmp_path / "model").generate("the fox", max_new_tokens=5).num_tokens
