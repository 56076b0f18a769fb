"""The training loop, as on the slide.

    for each step:
        batch → loss → backward → clip → rate → update → mean
        validate, keep the best model, log, save, stop: each when it is due

Everything that later steps depend on is in the saved state, and the state is saved last: so a run
that resumes from it continues exactly as if it had never stopped. (Lightning's Trainer validates
after it has written a checkpoint: a run that resumed there would skip that validation.) What
devices, precision and several processes add to the parts of a step is in `learner.py`.
"""

import math
import time
from typing import Any

import torch

from glassformer.checkpoint.model_folder import save_model, save_snapshot
from glassformer.checkpoint.training_state import Standing, new_state, save_state
from glassformer.errors import GlassformerError, enough_memory
from glassformer.machine import processes
from glassformer.machine.seeds import seed_step
from glassformer.models import count_parameters
from glassformer.tasks.evaluating import Result
from glassformer.tasks.recipe import DecidedTraining, Replan
from glassformer.training.finetuning import lora_to_keep, model_to_keep
from glassformer.training.learner import LOWER, Learner, update_batches
from glassformer.training.optimizer_and_schedule import rate_of
from glassformer.training.progress import Progress, RunLog, StatusLine, StopRequest, name_in_line
from glassformer.training.report import model_card
from glassformer.training.run_folder import RunFolder, fingerprint, snapshot_steps
from glassformer.training.time_limit import FEW, TimeLimit, advice
from glassformer.wording import clock, counted


def learn(learner: Learner, step: int, rate: float, most: int | None = None) -> float:
    """Make step number `step` (from 1) at this share of the learning rate; the mean loss of its
    batches. To measure how long a step takes, batches may be cut to `most` rows."""
    losses = []
    batches = update_batches(learner.objective, step - 1, most)
    for batch in batches:  # several: gradient accumulation
        seed_step(learner.objective.config.seed, batch.number)  # the same dropout after a resume
        with enough_memory(f"at step {step:,}"), learner.accumulating(batch is batches[-1]):
            loss = learner.loss(batch)
            if not torch.isfinite(loss):
                raise GlassformerError(
                    f"the loss became {loss.item()} at step {step:,}, before the weights were "
                    f"changed. {LOWER}"
                )
            learner.backward(loss / len(batches))
        losses.append(loss.item())
    learner.clip(step)
    learner.update(rate)
    learner.average(step)
    return sum(losses) / len(losses)


class Loop:
    """Trains, and validates, keeps the best model, logs, saves and stops when that is due."""

    def __init__(
        self, run: RunFolder, learner: Learner, log: RunLog, progress: Progress, step: int = 0
    ) -> None:
        """`step` is the last one that has been made."""
        self.run = run
        self.objective = learner.objective
        self.learner = learner
        self.log = log
        self.progress = progress
        self.step = step
        self.standing = Standing.at_the_start()
        self.stop = StopRequest()
        self.limit: TimeLimit | None = None
        self._signal: int | None = None  # that any of the processes has received
        self._has_advised = False
        self._snapshots = snapshot_steps(self.config, learner.model)

    def train(self, until: int | None = None) -> None:
        """Train to the end, or to the step `until`."""
        if self.step == 0 and self._snapshots:
            self._keep_snapshot()
        is_stopping = self.step == until
        while not (self.is_finished or is_stopping):
            self.step += 1
            begin = time.perf_counter()
            loss = learn(self.learner, self.step, rate_of(self.config, self.step - 1))
            trained = time.perf_counter()
            loss = self._agree(loss, trained - begin)
            self.standing.losses.append(loss)
            self.standing.trace.append(loss)

            plan = self.config.plan_at(self.step)  # a time limit may have changed it
            is_last = self.step >= plan.max_steps
            scores: dict[str, float] = {}
            if self.step % plan.eval_steps == 0 or is_last:
                scores = self._validate()
            is_stopping = self._is_told_to_stop() or self.has_given_up or self.step == until
            if self.step % self.config.logging_steps == 0 or scores or is_last:
                self._log(scores)
            if self.step in self._snapshots or (self._snapshots and self.has_given_up):
                self._keep_snapshot()
            is_due = self.step % plan.save_steps == 0
            if is_due or is_last or is_stopping:
                self._save(is_due)

            self.progress.not_training(time.perf_counter() - trained)
            self._show(loss)

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a saved state, perhaps on another machine."""
        self.learner.load(state)
        now = {"machine": self.standing.machine}
        self.standing = Standing.model_validate(state["standing"] | now)
        if self.step % self.config.plan_at(self.step).save_steps == 0:
            self.standing.trace = []

    @property
    def config(self) -> DecidedTraining:
        return self.objective.config

    @property
    def has_given_up(self) -> bool:
        """Has it not improved for `early_stopping` validations?"""
        patience = self.config.early_stopping
        return patience is not None and self.standing.stale >= patience

    @property
    def is_finished(self) -> bool:
        return self.step >= self.config.last_step or self.has_given_up

    @property
    def stopped_by(self) -> int | None:
        """The signal that ended it, if one did."""
        return self.stop.signal or self._signal

    def _is_told_to_stop(self) -> bool:
        """Alone, by the signal that this process received; otherwise by the one that `_agree`
        shared, so that all stop after the same step."""
        return (self.stop.signal if processes.here() is None else self._signal) is not None

    def _agree(self, loss: float, seconds: float) -> float:
        """The mean loss of all processes. They also share a signal to stop, whichever of them has
        received it, and the plan of the first one, which has the clock."""
        plan = None
        if self.limit is not None:
            self.limit.stepped(seconds)
            plan = self.limit.replan(
                self.step, None if self.learner.is_sharded else self.learner.model
            )
        mine = [loss, self.stop.signal or 0, float(plan is not None)]
        losses, signals, plans = zip(*processes.from_all(mine), strict=True)
        self._signal = int(max(signals)) or None
        if any(plans):
            self._adopt(Replan(**processes.from_first(plan and plan.model_dump())))
        return float(sum(losses) / len(losses))

    def _adopt(self, plan: Replan) -> None:
        """Go on by another plan. It is on disk before it takes effect."""
        recipe, is_first_plan = self.objective.recipe, not self.config.replans
        replans = (*self.config.replans, plan)
        self.objective.change_recipe(recipe.with_training(replans=replans))
        self._snapshots = snapshot_steps(self.config, self.learner.model)
        if self.limit is None or not processes.is_first():
            return
        self.run.write_recipe(self.objective.recipe)
        if is_first_plan:
            limit = clock(self.limit.limit)
            self.progress.write(
                f"time limit: {counted(plan.max_steps, 'step')} planned for {limit}"
            )
        if plan.max_steps < FEW <= self.config.max_steps and not self._has_advised:
            self._has_advised = True
            self.progress.write(advice(self.objective, plan.max_steps, self.limit))

    def _validate(self) -> dict[str, float]:
        """The scores on held-out data. The best model so far is kept."""
        begin = time.perf_counter()
        objective, standing, step = self.objective, self.standing, self.step
        with self.learner.result() as model:
            result = objective.validate(model)
            if not math.isfinite(result.loss):
                raise GlassformerError(
                    f"the validation loss became {result.loss} at step {step:,}; that state is not "
                    f"saved. {LOWER}"
                )
            text = objective.sample(model, step)
        scores: dict[str, float] = processes.from_first(objective.columns(result))
        standing.val = scores[f"val_{objective.measure}"]
        standing.stale += 1
        if standing.best is None or objective.rank(scores) < objective.rank(standing.best):
            standing.stale, standing.best, standing.best_step = 0, scores, step
            standing.notes = list(result.notes)
            self._keep_best(result)
        self.log.sample(step, text)
        measure = name_in_line(objective.measure)
        self.progress.sample(f"  step {step:,} {measure} {standing.val:.3f}", text)
        if self.limit is not None:
            self.limit.validated(time.perf_counter() - begin)
        return dict(scores)

    def _keep_best(self, result: Result) -> None:
        objective, model = self.objective, self.learner.gather()
        if not processes.is_first():
            return
        best = model_to_keep(objective.recipe, model)
        card = model_card(objective, count_parameters(best), result, self.step)
        lora = lora_to_keep(objective.recipe, model)
        save_model(self.run.path, best, objective.dataset.preprocessing, card, lora)

    def _log(self, scores: dict[str, float]) -> None:
        """A line of metrics.csv, with the mean loss since the line before."""
        losses = self.standing.losses
        learning = {
            "train_loss": sum(losses) / len(losses),
            # The base rate: groups of parameters learn at multiples of it.
            "learning_rate": self.config.learning_rate * rate_of(self.config, self.step - 1),
        }
        self.standing.losses = []
        speed = self.progress.items_per_second
        self.log.write(self.step, scores | learning, items_per_second=speed)

    def _keep_snapshot(self) -> None:
        model = self.learner.gather()
        if processes.is_first():
            save_snapshot(self.run.path, self.step, model_to_keep(self.objective.recipe, model))

    def _save(self, is_due: bool) -> None:
        begin = time.perf_counter()
        self.log.sync()
        self.standing.recipe = fingerprint(self.objective.recipe, self.step)
        self.standing.seconds = None if self.limit is None else self.limit.spent
        state = new_state(self.step, self.learner.state(), self.standing)
        save_state(self.run.checkpoint(self.step), state, is_written=processes.is_first())
        if is_due:
            self.standing.trace = []
        if processes.is_first():
            self.run.prune(self.config)
        if self.limit is not None:
            self.limit.saved(time.perf_counter() - begin)

    def _show(self, loss: float) -> None:
        standing, measure = self.standing, self.objective.measure
        status = StatusLine(
            self.step,
            self.config.last_step,
            loss,
            standing.val,
            None if standing.best is None else standing.best[f"val_{measure}"],
            standing.best_step,
            measure,
            title="best" if self.objective.decides == measure else "kept",
        )
        self.progress.show(status, None if self.limit is None else self.limit.left)
