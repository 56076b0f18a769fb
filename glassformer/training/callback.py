"""What happens around the steps of a training, in one place and one order:

    seed this step's randomness → [step] → log → validate, sample, keep the best → snapshot, save
    → stop?

Everything that later steps depend on is in the saved state, and the state is saved last: so a run
that resumes from it continues exactly as if it had never stopped.
"""

import math
import time
from typing import Any

import lightning
from lightning.pytorch import Callback, Trainer
from lightning.pytorch import LightningModule as Module
from lightning.pytorch.plugins.io import CheckpointIO
from torch import Tensor
from torch.optim import Optimizer

from glassformer.checkpoint.model_folder import save_model
from glassformer.checkpoint.snapshots import save_snapshot
from glassformer.checkpoint.training_state import load_state, save_state
from glassformer.errors import GlassformerError
from glassformer.evaluation.result import Result
from glassformer.runtime import processes
from glassformer.runtime.random_seeds import seed_step
from glassformer.tasks.task import Objective
from glassformer.training.batch_order import number_among_all
from glassformer.training.finetuning import lora_to_keep, model_to_keep
from glassformer.training.gradients import are_finite
from glassformer.training.lightning_module import LOWER, Learner
from glassformer.training.model_card import count_parameters, model_card
from glassformer.training.progress import Progress, Standing, name_in_line
from glassformer.training.resume_changes import essence
from glassformer.training.run_folder import RunFolder
from glassformer.training.run_log import RunLog
from glassformer.training.saved_state import STANDING, VERSION, SavedStanding, StepState, checked
from glassformer.training.schedule import rate_of
from glassformer.training.signals import StopRequest
from glassformer.training.snapshot_plan import snapshot_steps


class StateIO(CheckpointIO):
    """Lightning's checkpoints as our state folders: no pickle, all or nothing."""

    def __init__(self, gradient_accumulation_steps: int = 1) -> None:
        self.gradient_accumulation_steps = gradient_accumulation_steps

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        save_state(path, checkpoint, is_written=processes.is_first())

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Only the counters that were checked, and of no older version: there is nothing for
        Lightning to convert."""
        state = load_state(path)
        # Another number of processes may have saved it, each of which counts its own batches.
        loops = checked(StepState, state).counters(self.gradient_accumulation_steps)
        return state | {"loops": loops, VERSION: lightning.__version__}

    def remove_checkpoint(self, path: Any) -> None:
        raise NotImplementedError("RunFolder.prune does this")


class StepCallback(Callback):
    """Seeds, logs, validates, keeps the best model, saves, and stops when asked to."""

    state_key = STANDING  # Lightning's default would be the name of this class

    def __init__(
        self,
        run: RunFolder,
        objective: Objective,
        learner: Learner,
        log: RunLog,
        progress: Progress,
        first: int,
        until: int | None = None,
    ) -> None:
        """`first` is the step to continue from, `until` the step to save and stop at."""
        self.run = run
        self.objective = objective
        self.learner = learner
        self.config = objective.config
        self.is_first = processes.is_first()
        self.run_log = log
        self.progress = progress
        self.until = until or self.config.max_steps
        self.snapshots = snapshot_steps(self.config, learner.model)
        self.step = first
        self.saved = SavedStanding.at_the_start(essence(objective.recipe))
        self.stop = StopRequest()
        self._step_losses: list[float] = []  # of the micro-batches of this step

    def state_dict(self) -> dict[str, Any]:
        return self.saved.model_dump()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        now = self.saved  # of this recipe and machine
        mine = {"recipe": now.recipe, "machine": now.machine}
        self.saved = SavedStanding.model_validate(state_dict | mine)
        if self._is_due(self.config.save_steps):
            self.saved.trace = []

    def on_train_start(self, trainer: Trainer, module: Module) -> None:
        self.stop.listen()  # again: by now Lightning has put a handler of its own in front
        trainer.should_stop = self.has_given_up
        if self.step == 0 and self.snapshots:
            self._keep_snapshot()

    @property
    def has_given_up(self) -> bool:
        """Has it not improved for `early_stopping` validations?"""
        patience = self.config.early_stopping
        return patience is not None and self.saved.stale >= patience

    @property
    def is_finished(self) -> bool:
        return self.step >= self.config.max_steps or self.has_given_up

    def on_train_batch_start(
        self, trainer: Trainer, module: Module, batch: Any, number: int
    ) -> None:
        seed_step(self.config.seed, number_among_all(number))

    def on_before_optimizer_step(
        self, trainer: Trainer, module: Module, optimizer: Optimizer
    ) -> None:
        # In float16 gradients may overflow now and then: its scaler sees to that.
        if self.config.precision != "float16" and not are_finite(module.parameters()):
            raise GlassformerError(
                f"a gradient became infinite or NaN at step {trainer.global_step + 1:,}, before "
                f"the weights were changed. {LOWER}"
            )

    def on_train_batch_end(
        self, trainer: Trainer, module: Module, outputs: Any, batch: Any, number: int
    ) -> None:
        loss: Tensor = outputs["loss"]
        accumulation = self.config.gradient_accumulation_steps
        self._step_losses.append(loss.item() * accumulation)
        if (number + 1) % accumulation:
            return  # the weights have not changed yet
        mine = sum(self._step_losses) / accumulation
        self._step_losses = []
        # One collective step for both: processes stop together, whichever was told to.
        losses, signals = zip(*processes.from_all([mine, self.stop.signal or 0]), strict=True)
        mean = sum(losses) / len(losses)
        self.stop.signal = int(max(signals)) or None
        self.saved.losses.append(mean)
        self.saved.trace.append(mean)
        self.step = trainer.global_step
        begin = time.perf_counter()
        self._after_step(trainer)
        self.progress.not_training(time.perf_counter() - begin)
        self.progress.show(self._standing(mean))

    def _standing(self, loss: float) -> Standing:
        saved, measure = self.saved, self.objective.measure
        title = "best" if self.objective.decides == measure else "kept"
        best = None if saved.best is None else saved.best[f"val_{measure}"]
        numbers = (loss, saved.val, best, saved.best_step)
        return Standing(self.step, self.config.max_steps, *numbers, measure, title)

    def _after_step(self, trainer: Trainer) -> None:
        step, last = self.step, self.step == self.config.max_steps
        values: dict[str, float] = {}
        if self._is_due(self.config.eval_steps) or last:
            values = self._validate(step)
        # Asked once: a signal may come at any moment.
        stopping = self.stop.signal is not None or self.has_given_up or step == self.until
        if self._is_due(self.config.logging_steps) or values or last:
            values["train_loss"] = sum(self.saved.losses) / len(self.saved.losses)
            # That of the recipe: groups of parameters learn at multiples of it.
            values["learning_rate"] = self.config.learning_rate * rate_of(self.config, step - 1)
            self.saved.losses = []
            self.run_log.write(step, values, items_per_second=self.progress.items_per_second)
        if step in self.snapshots or (self.snapshots and self.has_given_up):
            self._keep_snapshot()
        if self._is_due(self.config.save_steps) or last or stopping:
            self.run_log.sync()
            trainer.save_checkpoint(self.run.checkpoint(step))
            if self._is_due(self.config.save_steps):
                self.saved.trace = []
            if self.is_first:
                self.run.prune(self.config)
        if stopping:
            trainer.should_stop = True

    def _keep_snapshot(self) -> None:
        kept = self.learner.kept()
        if self.is_first:
            save_snapshot(self.run.path, self.step, model_to_keep(self.objective.recipe, kept))

    def _is_due(self, every: int) -> bool:
        return self.step % every == 0

    def _validate(self, step: int) -> dict[str, float]:
        with self.learner.result() as model:
            found = self.objective.validate(model)
            if not math.isfinite(found.loss):
                raise GlassformerError(
                    f"the validation loss became {found.loss} at step {step:,}; that state is not "
                    f"saved. {LOWER}"
                )
            text = self.objective.sample(model, step)
        saved, objective = self.saved, self.objective
        columns = processes.from_first(objective.columns(found))
        saved.val = value = columns[f"val_{objective.measure}"]
        saved.stale += 1
        if self._is_better(columns):
            saved.stale, saved.best, saved.best_step = 0, columns, step
            self._keep_best(found)
        self.run_log.sample(step, text)
        self.progress.sample(f"  step {step:,} {name_in_line(objective.measure)} {value:.3f}", text)
        return dict(columns)

    def _keep_best(self, found: Result) -> None:
        objective, model = self.objective, self.learner.kept()
        if not self.is_first:
            return
        kept = model_to_keep(objective.recipe, model)
        card = model_card(objective, count_parameters(kept), found, self.step)
        lora = lora_to_keep(objective.recipe, model)
        save_model(self.run.path, kept, objective.dataset.preprocessing, card, lora)

    def _is_better(self, columns: dict[str, float]) -> bool:
        """Whether these scores are the best so far."""
        best, rank = self.saved.best, self.objective.rank
        return best is None or rank(columns) < rank(best)
