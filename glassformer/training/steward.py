"""What happens around the steps of a training, in one place and one order:

    seed this step's randomness → [step] → log → validate, sample, keep the best → save → stop?

Everything that later steps depend on is in the saved state, and the state is saved last: so a run
that resumes from it goes on exactly as if it had never stopped.
"""

import math
import os
import signal
import time
from types import FrameType
from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.plugins.io import CheckpointIO
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from glassformer.checkpoint.folder import save_model
from glassformer.checkpoint.state import load_state, save_state
from glassformer.errors import GlassformerError
from glassformer.runtime import seed_step
from glassformer.runtime.facts import cpu_name
from glassformer.training.card import count_parameters, model_card
from glassformer.training.metrics import Metrics
from glassformer.training.progress import Progress, Standing
from glassformer.training.recipe import essence
from glassformer.training.run_folder import RunFolder
from glassformer.training.tasks import Task


class StateIO(CheckpointIO):
    """Lightning's checkpoints as our state folders: no pickle, all or nothing."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        save_state(path, checkpoint)

    def load_checkpoint(
        self, path: Any, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return load_state(path)

    def remove_checkpoint(self, path: Any) -> None:
        raise NotImplementedError("RunFolder.prune does this")


class Steward(lightning.Callback):
    """Seeds, logs, validates, keeps the best model, saves, and stops when asked to."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(
        self,
        run: RunFolder,
        task: Task,
        model: nn.Module,
        metrics: Metrics,
        progress: Progress,
        first: int,
        until: int | None = None,
    ) -> None:
        """`model` is the one to validate and keep; `first` the step to go on from; `until` the
        step to stop at and save."""
        self.run = run
        self.task = task
        self.model = model
        self.config = task.recipe.decided
        self.metrics = metrics
        self.progress = progress
        self.recipe = essence(task.recipe)
        self.until = until or self.config.max_steps
        self.standing = Standing(first, self.config.max_steps, measure=task.measure)
        self.best: dict[str, float] | None = None
        self.stopped_by: int | None = None
        self.trace: list[float] = []  # the loss of each step since a state was due
        self._stale = 0  # validations since the best one
        self._losses: list[float] = []  # since the last line of metrics.csv
        self._step_losses: list[float] = []  # of the micro-batches of this step
        self._learning_rate = 0.0

    def state_dict(self) -> dict[str, Any]:
        standing = self.standing
        return {
            "recipe": self.recipe,
            "losses": self._losses,
            "trace": self.trace,
            "machine": {"torch": torch.__version__, "processor": cpu_name()},
            "stale": self._stale,
            "val": standing.val,
            "best": self.best,
            "best_step": standing.best_step,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._losses = list(state_dict["losses"])
        self._stale = state_dict["stale"]
        self.trace = [] if self._is_due(self.config.save_steps) else list(state_dict["trace"])
        self.best = state_dict["best"]
        self.standing.val, self.standing.best_step = state_dict["val"], state_dict["best_step"]
        self.standing.best = None if self.best is None else self.best[f"val_{self.task.measure}"]

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.heed_signals()  # again: by now Lightning has put a handler of its own in front
        trainer.should_stop = self.has_given_up

    @property
    def has_given_up(self) -> bool:
        """Has it not become better for as long as the recipe is patient?"""
        patience = self.config.early_stopping
        return patience is not None and self._stale >= patience

    @property
    def is_finished(self) -> bool:
        return self.standing.step >= self.config.max_steps or self.has_given_up

    def on_train_batch_start(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, batch: Any, number: int
    ) -> None:
        seed_step(self.config.seed, number, trainer.global_rank)

    def on_before_optimizer_step(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._learning_rate = float(optimizer.param_groups[0]["lr"])
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        # In float16 gradients may overflow now and then: its scaler sees to that.
        if self.config.precision != "float16" and not get_total_norm(gradients).isfinite():
            raise GlassformerError(
                f"a gradient became infinite or NaN at step {trainer.global_step + 1:,}, before "
                "the weights were changed. Try a smaller --set training.learning_rate."
            )

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        number: int,
    ) -> None:
        loss: Tensor = outputs["loss"]
        accumulation = self.config.gradient_accumulation_steps
        self._step_losses.append(loss.item() * accumulation)
        if (number + 1) % accumulation:
            return  # the weights have not changed yet
        self._losses.append(sum(self._step_losses) / accumulation)
        self._step_losses = []
        self.trace.append(self._losses[-1])
        self.standing.step = trainer.global_step
        self.standing.loss = self._losses[-1]
        begin = time.perf_counter()
        self._after_step(trainer)
        self.progress.not_training(time.perf_counter() - begin)
        self.progress.show(self.standing)

    def _after_step(self, trainer: lightning.Trainer) -> None:
        step, last = trainer.global_step, trainer.global_step == self.config.max_steps
        values: dict[str, float] = {}
        if self._is_due(self.config.eval_steps) or last:
            values = self._validate(step)
        # Asked once: a signal may come at any moment.
        stopping = self.stopped_by is not None or self.has_given_up or step == self.until
        if self._is_due(self.config.logging_steps) or values or last:
            values["train_loss"] = sum(self._losses) / len(self._losses)
            values["learning_rate"] = self._learning_rate
            self._losses = []
            self.metrics.write(step, values, tokens_per_second=self.progress.tokens_per_second)
        if self._is_due(self.config.save_steps) or last or stopping:
            self.metrics.sync()
            trainer.save_checkpoint(self.run.checkpoint(step))
            if self._is_due(self.config.save_steps):
                self.trace = []
            self.run.prune(self.config.save_total_limit, self.config.save_steps)
        if stopping:
            trainer.should_stop = True

    def _is_due(self, every: int) -> bool:
        return self.standing.step % every == 0

    def _validate(self, step: int) -> dict[str, float]:
        found = self.task.validate(self.model)
        if not math.isfinite(found.loss):
            raise GlassformerError(
                f"the validation loss became {found.loss} at step {step:,}, which is not saved. "
                "Try a smaller --set training.learning_rate."
            )
        columns, standing = found.columns(), self.standing
        standing.val = value = columns[f"val_{self.task.measure}"]
        self._stale += 1
        if self.task.is_better(columns, than=self.best):
            self._stale = 0
            self.best, standing.best, standing.best_step = columns, value, step
            kept = self.task.to_keep(self.model)
            card = model_card(self.task, count_parameters(kept), found, step)
            save_model(self.run.path, kept, self.task.tokenizer, card, self.task.second_tokenizer)
        text = self.task.sample(self.model, step)
        self.metrics.sample(step, text)
        self.progress.say(
            f"  step {step:,} {standing.name} {value:.3f} │ {' '.join(text.split())}", whole=False
        )
        return dict(columns)

    def heed_signals(self) -> None:
        for number in self.SIGNALS:
            signal.signal(number, self.stop_at_next_step)

    def stop_at_next_step(self, number: int, frame: FrameType | None = None) -> None:
        """A signal handler: the step under way is finished and saved; a second signal is final."""
        if self.stopped_by is not None:
            raise SystemExit(128 + number)
        self.stopped_by = number
        name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        # Not by way of a stream: the signal may have come while one was being written to.
        os.write(2, f"{name}: stopping after this step …\n".encode())
