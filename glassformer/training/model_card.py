"""The model card: what a model is, what it was trained on, and how well it does."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from glassformer import __version__
from glassformer.evaluation.result import Result
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Objective
from glassformer.wording import counted


def model_card(objective: Objective, num_parameters: int, result: Result, step: int) -> str:
    """Markdown without dates and paths: equal models have equal cards."""
    recipe, dataset = objective.recipe, objective.dataset
    context = recipe.model.get("context_length")
    data = ", ".join(Path(path).name for path in recipe.data_names)
    inputs = dataset.preprocessing.summary()
    lines = [
        f"# {recipe.model_name} {recipe.preset or ''}".rstrip(),
        "",
        f"Trained with glassformer {__version__} and torch {torch.__version__}. The run folder "
        "has the recipe (`recipe.yaml`) and the losses by step (`metrics.csv`).",
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {num_parameters:,} |",
        f"| context | {counted(context, dataset.unit) if context else 'any'} |",
        *(f"| {name} | {value} |" for name, value in inputs.items()),
        *_origin(recipe),
        f"| data | {data} |",
        f"| size | {dataset.describe()} |",
        f"| held out | {result.headline()}, after step {step:,} |",
        f"| seed | {recipe.training.seed} |",
        "",
        "```",
        *(f"glassformer {shlex.join(map(str, words))}" for words in objective.trials(".")),
        "```",
        "",
    ]
    return "\n".join(lines)


def _origin(recipe: Recipe) -> list[str]:
    """The models that it began with, if any."""
    start = recipe.start
    if start is None:
        return []
    how = "trained further from" if start.continues else "fine-tuned from"
    lora = f", by LoRA of rank {start.lora_rank}" if start.lora_rank else ""
    return [f"| {how} | {', '.join(start.lineage)}{lora} |"]


def with_test(card: str, headline: str, paths: Sequence[str]) -> str:
    """The card with the row of the test, added or replaced."""
    row = f"| test | {headline}, in {', '.join(Path(path).name for path in paths)} |"
    lines = [line for line in card.splitlines() if not line.startswith("| test |")]
    rows = (at for at, line in enumerate(lines, 1) if line.startswith("| held out |"))
    end = next(rows, len(lines))  # at the end of a card that somebody rewrote
    return "\n".join([*lines[:end], row, *lines[end:], ""])


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
