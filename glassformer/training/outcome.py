"""How a training ended, for people and for programs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.training.tasks import Task
from glassformer.wording import command


@dataclass(frozen=True)
class FinalScores:
    """What the best model of a finished run is worth on data that had no say in it."""

    scores: dict[str, Any]
    headline: str


@dataclass(frozen=True)
class Outcome:
    """Where the run is, how far it came, and how good its best model is."""

    folder: Path
    step: int
    max_steps: int
    best: dict[str, float] | None
    """What was found of the best model, as metrics.csv names it."""
    best_step: int | None
    stopped_by: int | None
    """The signal that ended it early, if one did."""
    task: Task
    stopped_early: bool = False
    """It did not become better for as long as `early_stopping` says."""
    is_old: bool = False
    """There was nothing left to do."""
    test: FinalScores | None = None

    @property
    def exit_code(self) -> int:
        return 0 if self.stopped_by is None else 128 + self.stopped_by

    def summary(self) -> str:
        if self.stopped_by is not None:
            where = f"at step {self.step:,} of {self.max_steps:,}; nothing is lost"
            return (
                f"stopped {where if self.step else 'before the first step'}. "
                f"Go on with: {command('train', '--resume', '--out', self.folder)}"
            )
        if self.best is None:
            return f"{self.folder}: nothing was validated."
        why = f"stopped at step {self.step:,}, no longer better. " if self.stopped_early else ""
        if self.is_old:
            why = f"finished already, at step {self.step:,}. "
        measure = self.task.measure
        test = "" if self.test is None else f"Test: {self.test.headline}. "
        return (
            f"{why}{self.folder}: validation {measure} {self.best[f'val_{measure}']:.4f} at step "
            f"{self.best_step:,}. {test}Try: {command(*self.task.trials(self.folder)[0])}"
        )

    def as_json(self) -> str:
        test = {"test": self.test and self.test.scores} if self.task.recipe.test_paths else {}
        return json.dumps(
            {
                "run": str(self.folder),
                "step": self.step,
                "max_steps": self.max_steps,
                **(self.best or dict.fromkeys(self.task.columns)),
                "best_step": self.best_step,
                "finished": self.stopped_by is None,
                **test,
            },
            ensure_ascii=False,
        )
