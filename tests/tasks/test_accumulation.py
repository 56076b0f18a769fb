"""Several batches of one update are one large batch: the same gradient, whatever their lengths."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import MACHINE, NOISE, ready, recipe_for, reviews, sentences, topics
from test_every_task import prose

from glassformer.tasks.rows import RowDataset
from glassformer.tasks.task import Objective
from glassformer.training.learner import update_batches
from glassformer.training.preparation import make_recipe

SIZES = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_feedforward": 32, "dropout": 0.0}
K, B = 4, 6


def turned(folder: Path) -> Path:
    """Sentence pairs of many lengths: the second is the first in capitals."""
    draw, path = random.Random(0), folder / "pairs.tsv"
    lines = {" ".join(draw.choices(NOISE, k=draw.randint(1, 9))) for _ in range(200)}
    path.write_text("".join(f"{line}\t{line.upper()}\n" for line in sorted(lines)))
    return path


CASES: dict[str, tuple[str, Callable[..., Path], dict[str, Any]]] = {
    "language": ("gpt", prose, {"context_length": 16}),
    "masked": ("bert", prose, {"context_length": 16}),
    "classify": ("classifier", reviews, {"context_length": 32}),
    "several labels": ("classifier", topics, {"context_length": 32}),
    "tag": ("tagger", sentences, {"context_length": 32}),
    "translate": ("translator", turned, {"context_length": 32}),
}


def one_batch(objective: Any) -> Any:
    """The first K batches as one."""
    batches = objective.batches
    if isinstance(objective.dataset, RowDataset):  # batches are padded to their longest row
        return batches.take(np.concatenate([batches.rows(number) for number in range(K)]))
    parts = [objective.batch(number) for number in range(K)]
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(parts)
    return type(parts[0])(*(torch.cat(each) for each in zip(*parts, strict=True)))


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("class_weights", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_k_batches_are_one_batch(tmp_path: Path, case: str, class_weights: bool) -> None:
    name, write, sizes = CASES[case]
    is_labelled = case in ("classify", "several labels", "tag")
    if class_weights and not is_labelled:
        pytest.skip("no labels")
    steps = {"max_steps": 2, "per_device_train_batch_size": B, "gradient_accumulation_steps": K}
    sections = {"objective": {"class_weights": True}} if class_weights else {}
    recipe = make_recipe(
        {
            "model": {"name": name, **SIZES, **sizes}
            | ({"head_dropout": 0.0} if is_labelled else {}),
            "data": {"paths": [str(write(tmp_path))]},
            "training": steps | MACHINE,
            **sections,
        }
    )
    objective, model = ready(recipe, tmp_path / "run")
    expected = gradients(model, objective.loss(model, one_batch(objective)))
    weighed = [batch for batch, _ in zip(update_batches(objective, 0), range(K), strict=False)]
    losses = [objective.loss(model, each.content) * each.weight for each in weighed]
    found = gradients(model, torch.stack(losses).mean())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    if case in ("tag", "translate", "masked"):
        assert len({each.weight for each in weighed}) > 1  # else this would prove nothing


def test_a_task_that_does_not_count_weighs_all_batches_the_same(tmp_path: Path) -> None:
    more = {"gradient_accumulation_steps": 2, "max_steps": 1}
    objective, _ = ready(recipe_for("bag", reviews(tmp_path), **more), tmp_path / "run")
    objective.num_targets = lambda batch: Objective.num_targets(objective, batch)
    assert [each.weight for each in update_batches(objective, 0)] == [1.0, 1.0]
