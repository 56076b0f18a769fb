"""How a training ended, for people and for programs."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer import __version__
from glassformer.tasks.evaluating import Result
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Objective
from glassformer.training.run_folder import Standing
from glassformer.wording import command, counted, score_name

# --- outcome ---


@dataclass(frozen=True)
class FinalTest:
    """How good the best model of a finished run is on its test set: the content of test.json."""

    model: str
    """The checksum of the weights that were tested."""
    headline: str
    scores: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Where the run is, how far it came, and how good its best model is."""

    folder: Path
    step: int
    standing: Standing
    objective: Objective
    stopped_by: int | None = None
    """The signal that ended it early, if one did."""
    stopped_early: bool = False
    """It did not improve for `early_stopping` validations."""
    is_old: bool = False
    """There was nothing left to do."""
    test: FinalTest | None = None
    report: Path | None = None
    """The page about the run, if it could be written."""

    @property
    def best(self) -> dict[str, float] | None:
        """The scores of the best model, as metrics.csv names them."""
        return self.standing.best

    @property
    def best_step(self) -> int | None:
        return self.standing.best_step

    @property
    def max_steps(self) -> int:
        return self.objective.config.last_step

    @property
    def exit_code(self) -> int:
        return 0 if self.stopped_by is None else 128 + self.stopped_by

    @property
    def is_trained(self) -> bool:
        """Whether there is no step left to make."""
        return self.step >= self.max_steps or self.stopped_early

    def summary(self) -> str:
        if self.stopped_by is not None:
            again = command("train", "--resume", "--out", self.folder)
            if self.is_trained:
                has_test = bool(self.objective.recipe.test_paths) and self.test is None
                left = "the test and the report are" if has_test else "the report is"
                return (
                    f"stopped after the last step: {self.folder} is trained and saved, but {left} "
                    f"missing. Complete it with: {again}"
                )
            where = f"at step {self.step:,} of {self.max_steps:,}; nothing is lost"
            return (
                f"stopped {where if self.step else 'before the first step'}. Continue with: {again}"
            )
        if self.best is None:
            return f"{self.folder}: no validation was run."
        why = f"stopped early at step {self.step:,}. " if self.stopped_early else ""
        if self.is_old:
            why = f"already finished, at step {self.step:,}. "
        measure = self.objective.measure
        test = "" if self.test is None else f"Test: {self.test.headline}. "
        report = "" if self.report is None else f"Report: {self.report}. "
        notes = "".join(f"{note[:1].upper()}{note[1:]} " for note in self.standing.notes)
        return (
            f"{why}{self.folder}: validation {score_name(measure)} "
            f"{self.best[f'val_{measure}']:.4f} at step {self.best_step:,}. {notes}{test}{report}"
            f"Try: {command(*self.objective.trials(self.folder)[0])}"
        )

    def as_json(self) -> str:
        test = {"test": self.test and self.test.scores} if self.objective.recipe.test_paths else {}
        return json.dumps(
            {
                "run": str(self.folder),
                "step": self.step,
                "max_steps": self.max_steps,
                **(self.best or {f"val_{name}": None for name in self.objective.measures}),
                "best_step": self.best_step,
                "notes": self.standing.notes,
                "finished": self.stopped_by is None,
                "report": None if self.report is None else str(self.report),
                **test,
            },
            ensure_ascii=False,
        )


# --- model card ---
# The model card: what a model is, what it was trained on, and how well it does.


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
