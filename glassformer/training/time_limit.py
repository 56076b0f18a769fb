"""As many steps as fit into a time limit. What depends on their number follows, so the learning
rate schedule still runs to its end."""

from glassformer.runtime.host import Setup, silently
from glassformer.tasks.task import Objective, Say
from glassformer.training.finetuning import new_model
from glassformer.training.preparation import Prepared
from glassformer.training.timing import seconds_of_training, seconds_per_step
from glassformer.wording import clock, counted

RESERVE = 0.1  # of a time limit: for saving, and for steps slower than those that were measured
SETTING_UP = 5.0  # seconds until the first step
FEW = 50  # steps in which nothing much is learned


def within_time_limit(ready: Prepared, setup: Setup, say: Say = silently) -> Objective:
    """What to learn; in fewer steps, if the recipe has a time limit that requires it."""
    objective, limit = ready.objective(), ready.sized.training.time_limit
    if limit is None:
        return objective
    model = new_model(objective.recipe).to(setup.device)
    objective = fewer_steps(ready, limit, seconds_per_step(objective, setup, model))
    steps = objective.config.max_steps
    plan = f"time limit: {counted(steps, 'step')} planned for {clock(limit)}"
    if steps < FEW:
        plan += "; that is very few: allow more time, or choose a smaller --preset"
    say(plan)
    return objective


def fewer_steps(ready: Prepared, limit: float, seconds_per_step: float) -> Objective:
    """What to learn within `limit` seconds."""
    objective = ready.objective()
    if not seconds_per_step:  # of a task with its own way to train: there are no steps to count
        return objective
    for _ in range(3):  # fewer steps may mean fewer validations, and those take time, too
        needed = seconds_of_training(objective, seconds_per_step)
        share = (1 - RESERVE) * max(0.0, limit - SETTING_UP) / needed
        objective = ready.objective(max(1, int(objective.config.max_steps * min(1.0, share))))
    return objective
