"""The model card: what a model is, what it was trained on, and how well it does."""

import shlex
from pathlib import Path

import torch

from glassformer import __version__
from glassformer.training.evaluate import Evaluation
from glassformer.training.prepare import Prepared


def model_card(ready: Prepared, num_parameters: int, found: Evaluation, step: int) -> str:
    """Markdown without dates and paths: equal models have equal cards."""
    recipe = ready.recipe
    data = ", ".join(Path(path).name for path in recipe.data.paths)
    lines = [
        f"# {recipe.model_name} {recipe.preset or ''}".rstrip(),
        "",
        f"Trained by glassformer {__version__} with torch {torch.__version__}. The whole recipe is "
        "in `recipe.yaml`, the losses by step are in `metrics.csv`.",
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {num_parameters:,} |",
        f"| context | {recipe.model['context_length']:,} tokens |",
        f"| tokenizer | {recipe.tokenizer.kind}, {ready.tokenizer.vocab_size:,} tokens |",
        f"| data | {data} |",
        f"| text | {len(ready.training):,} tokens to learn from, "
        f"{len(ready.validation):,} held out |",
        f"| held-out loss | {found.loss:.4f} per token, perplexity {found.perplexity:.3f}, "
        f"{found.bits_per_byte:.4f} bits per byte, after step {step:,} |",
        f"| seed | {recipe.training.seed} |",
        "",
        "```",
        f"glassformer generate THIS_FOLDER {shlex.quote(ready.opening())}",
        f"glassformer score THIS_FOLDER {shlex.quote(ready.opening())}",
        "```",
        "",
    ]
    return "\n".join(lines)
