"""Training in one go, for a task that brings its own way to train instead of gradient steps."""

import math
from contextlib import closing
from typing import TextIO

from glassformer.checkpoint.model_folder import save_model
from glassformer.checkpoint.training_state import save_state
from glassformer.errors import GlassformerError
from glassformer.runtime.random_seeds import seed_step
from glassformer.tasks import task_of
from glassformer.training.finetuning import new_model
from glassformer.training.machine import machine_facts, use_machine
from glassformer.training.model_card import count_parameters, model_card
from glassformer.training.outcome import Outcome
from glassformer.training.preparation import prepared
from glassformer.training.resume_changes import essence
from glassformer.training.run_folder import STANDING, RunFolder
from glassformer.training.run_log import RunLog


def fit_at_once(run: RunFolder, stream: TextIO) -> Outcome:
    """Train the whole model; the run then has one state, that of its last step."""
    recipe = run.recipe()
    task, objective = task_of(recipe.model_name), prepared(recipe, run.path)
    if task.fit is None:
        raise TypeError(f"{recipe.model_name} is trained by gradient steps")
    setup = use_machine(recipe)
    seed_step(objective.config.seed, 0)
    model, step = new_model(recipe).to(setup.device), objective.config.max_steps
    run.forget_after(0)
    task.fit(objective, model, stream)
    found = objective.validate(model)
    if not math.isfinite(found.loss):
        raise GlassformerError(f"the validation loss became {found.loss}: the model is not saved.")
    best = objective.columns(found)
    with closing(RunLog(run.path, objective.measures, 0, objective.config.report_to)) as log:
        log.write(step, best)
        log.sample(step, objective.sample(model, step))
        log.sync()
    card = model_card(objective, count_parameters(model), found, step)
    save_model(run.path, model, objective.dataset.preprocessing, card)
    standing = {
        "recipe": essence(recipe),
        "losses": [],
        "trace": [],
        "machine": machine_facts(),
        "stale": 0,
        "val": found.scores()[objective.measure],
        "best": best,
        "best_step": step,
    }
    state = {"state_dict": model.state_dict(), "loops": {}, "callbacks": {STANDING: standing}}
    save_state(run.checkpoint(step), state)
    return Outcome(run.path, step, step, best, step, stopped_by=None, objective=objective)
