"""The table of models on the command line: its rows in the help, its tasks as choices."""

from pathlib import Path

from glassformer.cli.verb import Rows, Verb
from glassformer.models import MODELS, trainable


class ListsModels(Verb):
    """A verb whose help lists the models that can be trained from scratch, with their presets."""

    def is_argument(self, value: str) -> bool:
        return value in MODELS and not Path(value).exists()

    def tables(self) -> dict[str, Rows]:
        return {"Models and their presets": [(name, _about(name)) for name in trainable()]}


class ListsTasks(Verb):
    """A verb whose help lists the tasks for which a trained model can get a new head."""

    def tables(self) -> dict[str, Rows]:
        rows = tasks().items()
        return {"Tasks": [(task, f"Needs a pre-trained {' or '.join(on)}.") for task, on in rows]}


def tasks() -> dict[str, list[str]]:
    """The tasks of `finetune`, each with the pre-trained models that it can build on."""
    found: dict[str, list[str]] = {}
    for row in MODELS.values():
        if row.body:
            found.setdefault(row.task, []).append(row.body)
    return found


def _about(name: str) -> str:
    row = MODELS[name]
    return f"{row.about[:1].upper()}{row.about[1:]}: {', '.join(row.presets)}."
