"""The table of models on the command line: its rows in the help, its tasks as choices."""

import typer

from glassformer.cli.verb import Rows, Verb
from glassformer.models import MODELS, trainable


class ListsModels(Verb):
    """A verb whose help lists the models that can be trained from scratch, with their presets."""

    def tables(self) -> dict[str, Rows]:
        return {"Models and their presets": [(name, _about(name)) for name in trainable()]}


class ListsTasks(Verb):
    """A verb whose help lists the tasks for which a trained model can get a new head."""

    def tables(self) -> dict[str, Rows]:
        rows: Rows = []
        for task in tasks():
            heads = [row for row in MODELS.values() if row.task == task and row.body]
            turns = ", ".join(f"{row.body} into {row.about}" for row in heads)
            rows.append((task, f"Turns {turns}."))
        return {"Tasks": rows}


def tasks() -> list[str]:
    """The tasks of `finetune`: those for which some model is built on a pre-trained one."""
    return list(dict.fromkeys(row.task for row in MODELS.values() if row.body))


def known_task(text: str) -> str:
    if text not in tasks():
        raise typer.BadParameter(f"there is no task {text!r}. Choose one of: {', '.join(tasks())}.")
    return text


def _about(name: str) -> str:
    row = MODELS[name]
    return f"{row.about[:1].upper()}{row.about[1:]}: {', '.join(row.presets)}."
