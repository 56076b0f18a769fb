"""How a training ended, for people and for programs."""

import json
from dataclasses import dataclass
from pathlib import Path

from glassformer.wording import command


@dataclass(frozen=True)
class Outcome:
    """Where the run is, how far it came, and how good its best model is."""

    folder: Path
    step: int
    max_steps: int
    best_loss: float | None
    best_step: int | None
    stopped_by: int | None
    """The signal that ended it early, if one did."""
    stopped_early: bool = False
    """It did not become better for as long as `early_stopping` says."""
    is_old: bool = False
    """There was nothing left to do."""
    opening: str = ""
    """Some words that the model can continue."""

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
        if self.best_loss is None:
            return f"{self.folder}: nothing was validated."
        why = f"stopped at step {self.step:,}, no longer better. " if self.stopped_early else ""
        if self.is_old:
            why = f"finished already, at step {self.step:,}. "
        return (
            f"{why}{self.folder}: validation loss {self.best_loss:.4f} at step {self.best_step:,}. "
            f"Try: {command('generate', self.folder, self.opening)}"
        )

    def as_json(self) -> str:
        return json.dumps(
            {
                "run": str(self.folder),
                "step": self.step,
                "max_steps": self.max_steps,
                "val_loss": self.best_loss,
                "best_step": self.best_step,
                "finished": self.stopped_by is None,
            }
        )
