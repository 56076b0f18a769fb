"""The models that `explore` serves, from their folders."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from glassformer.errors import GlassformerError
from glassformer.models import name_of
from glassformer.server.stories import VIEW, StoryModel
from glassformer.tasks import load, predictor_of
from glassformer.training.preparation import prepared
from glassformer.training.run_folder import RunFolder


def distinct(folders: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Each model once, and a note on those that were given again, perhaps by another name."""
    first: dict[Path, Path] = {}
    notes = []
    for folder in folders:
        place = folder.resolve()
        if place in first:
            again = "given twice" if first[place] == folder else f"the same model as {first[place]}"
            notes.append(f"{folder} is {again}: it is shown once")
        first.setdefault(place, folder)
    return list(first.values()), notes


def load_models(folders: Sequence[Path]) -> list[StoryModel]:
    """The models in these folders, all of which have a story."""
    for folder in folders:  # before the weights are read, which takes long
        kind = predictor_of(folder)
        if VIEW not in kind.views:
            others = "".join(f", {name}" for name in kind.views)
            hint = f" Use glassformer inspect with --view{others[1:]}." if others else ""
            raise GlassformerError(f"{folder} cannot be explored: it has no story.{hint}")
    found = []
    for folder, name in zip(folders, _names(folders), strict=True):
        predictor = load(folder)
        view = predictor.view(VIEW, folder)
        found.append(StoryModel(name, name_of(predictor.model), predictor, view))
    return found


def _names(folders: Sequence[Path]) -> list[str]:
    """The names of the folders, or all of their paths where names are equal."""
    names = [folder.resolve().name for folder in folders]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else str(folder)
        for name, folder in zip(names, folders, strict=True)
    ]


def first_text(folders: Sequence[Path]) -> str | None:
    """A text from the held-out data of the first run that has one."""
    for folder in folders:
        if predictor_of(folder).views[VIEW].reads_file:
            continue
        run = RunFolder(folder)
        try:
            if run.exists:
                (_, _, *words), *_ = prepared(run.recipe(), run.path).trials(folder)
                if words and not str(words[0]).startswith("--"):
                    return str(words[0])
        except (GlassformerError, OSError):
            continue  # the model can be used without its data
    return None
