"""Names that are typed, checked before anything heavy is imported: a typing error is answered at
once, with the name that was probably meant."""

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from glassformer.checkpoint.missing_folder import is_hub_name, no_model, no_run
from glassformer.cli.model_table import tasks
from glassformer.cli.verb import before_running
from glassformer.errors import GlassformerError
from glassformer.models import row
from glassformer.wording import did_you_mean

Names = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None


def _check_models(names: Names) -> None:
    """Raise if one is neither here nor a name on the hub."""
    from glassformer.data.text_files import local_path

    for name in _each(names):
        if not is_hub_name(name) and not (path := local_path(name)).exists():
            raise GlassformerError(no_model(Path(str(path))))


def _check_runs(names: Names) -> None:
    for path in map(Path, _each(names)):
        if not path.exists():
            raise GlassformerError(no_run(path))


def _each(names: Names) -> list[str]:
    if names is None:
        return []
    several = [names] if isinstance(names, str | os.PathLike) else names
    return [os.fspath(each) for each in several]


known_model = before_running(_check_models)
known_run = before_running(_check_runs)


def known_task(text: str) -> str:
    if text not in (known := tasks()):
        cure = did_you_mean(text, known, f"Choose one of: {', '.join(known)}.")
        raise typer.BadParameter(f"there is no task {text!r}. {cure}")
    return text


def check_preset(model: str, preset: str | None) -> None:
    """Raise unless there is a model of that name, with that preset."""
    known = row(model)
    if preset is not None:
        known.preset(preset)
