"""The model card: what a model is, what it was trained on, and how well it does."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from glassformer import __version__
from glassformer.training.tasks import Judgement, Task


def model_card(task: Task, num_parameters: int, found: Judgement, step: int) -> str:
    """Markdown without dates and paths: equal models have equal cards."""
    recipe = task.recipe
    context = recipe.model.get("context_length")
    data = ", ".join(Path(path).name for path in recipe.data.names)
    lines = [
        f"# {recipe.model_name} {recipe.preset or ''}".rstrip(),
        "",
        f"Trained by glassformer {__version__} with torch {torch.__version__}. The whole recipe is "
        "in `recipe.yaml`, the losses by step are in `metrics.csv`.",
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {num_parameters:,} |",
        f"| context | {f'{context:,} tokens' if context else 'any'} |",
        f"| tokenizer | {_tokenizer(task)} |",
        f"| data | {data} |",
        f"| amount | {task.amount()} |",
        f"| held out | {found.headline()}, after step {step:,} |",
        f"| seed | {recipe.training.seed} |",
        "",
        "```",
        *(f"glassformer {shlex.join(map(str, words))}" for words in task.trials("THIS_FOLDER")),
        "```",
        "",
    ]
    return "\n".join(lines)


def with_test(card: str, headline: str, paths: Sequence[str]) -> str:
    """The card with one more row, or another one in its place."""
    row = f"| test | {headline}, in {', '.join(Path(path).name for path in paths)} |"
    lines = [line for line in card.splitlines() if not line.startswith("| test |")]
    places = (at for at, line in enumerate(lines, 1) if line.startswith("| held out |"))
    place = next(places, len(lines))  # the end: somebody has written a card of their own
    return "\n".join([*lines[:place], row, *lines[place:], ""])


def _tokenizer(task: Task) -> str:
    if task.tokenizer is None:
        return "none: sequences of numbers"
    return f"{task.tokenizer.kind}, {task.tokenizer.vocab_size:,} tokens"


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
