"""Real steps of a training, tried before it begins: how long does each take, with everything that
Lightning and our callback do around it?"""

import io
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from lightning.pytorch import LightningModule, Trainer
from torch import nn

from glassformer.runtime.host import Setup
from glassformer.tasks.task import Objective
from glassformer.training.batch_order import WeighedBatch
from glassformer.training.callback import StepCallback
from glassformer.training.fit import quiet, trainer_for
from glassformer.training.lightning_module import Learner
from glassformer.training.progress import Progress
from glassformer.training.run_folder import RunFolder
from glassformer.training.run_log import RunLog


@dataclass(frozen=True)
class _Batches:
    """Those of one update after each of these batches."""

    objective: Objective
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers) * self.objective.config.gradient_accumulation_steps

    def __iter__(self) -> Iterator[WeighedBatch]:
        for number in self.numbers:
            for more in range(self.objective.config.gradient_accumulation_steps):
                yield WeighedBatch(self.objective.batch(number + more), 1.0)


class _Stopwatch(StepCallback):
    """Takes the time after each step, and that of saving a state."""

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        self.times: list[float] = []

    def _after_step(self, trainer: Trainer) -> None:
        self.times.append(time.perf_counter())

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        for _ in range(2):  # the first time, the disk and its caches warm up
            begin = time.perf_counter()
            trainer.save_checkpoint(self.run.checkpoint(self.step))
            self.saving = time.perf_counter() - begin


@quiet()
def try_steps(
    objective: Objective, setup: Setup, model: nn.Module, numbers: Sequence[int], folder: Path
) -> tuple[float, float]:
    """Seconds of a step on these batches, and of saving a state. Each step is done twice: the first
    time, kernels are chosen and memory is found for its shape."""
    twice = [*numbers, *numbers]
    learner = Learner(model, objective)
    with (
        Progress(io.StringIO(), objective.items_per_step) as progress,
        closing(RunLog(folder, objective.measures, report_to=())) as log,
    ):
        run = RunFolder(folder)
        watch = _Stopwatch(run, objective, learner, log, progress, first=0)
        trainer = trainer_for(objective.config, setup, watch, max_steps=len(twice))
        trainer.fit(learner, _Batches(objective, twice))
    return (watch.times[-1] - watch.times[len(numbers) - 1]) / len(numbers), watch.saving
