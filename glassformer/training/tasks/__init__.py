"""Every objective by its name; each model is trained for one."""

from glassformer.models import entry
from glassformer.training.recipe import Recipe
from glassformer.training.tasks.classify import Classify
from glassformer.training.tasks.language import Language
from glassformer.training.tasks.masked import Masked
from glassformer.training.tasks.series import ClassifySeries, is_of_numbers
from glassformer.training.tasks.tag import Tag
from glassformer.training.tasks.task import Judgement, Say, Task
from glassformer.training.tasks.translate import Translate

__all__ = ["Judgement", "Say", "Task", "task_of"]

TASKS: dict[str, type[Task]] = {
    "language": Language,
    "masked": Masked,
    "classify": Classify,
    "tag": Tag,
    "translate": Translate,
}


def task_of(recipe: Recipe) -> type[Task]:
    task = TASKS[entry(recipe.model_name).task]
    return ClassifySeries if task is Classify and is_of_numbers(recipe) else task
