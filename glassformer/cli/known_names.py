"""Names that are typed, checked before anything heavy is imported: a typing error is answered at
once, with the name that was probably meant."""

from collections.abc import Sequence
from pathlib import Path

import typer

from glassformer.checkpoint.missing_folder import is_hub_name, no_model, no_run
from glassformer.cli.verb import before_running
from glassformer.errors import GlassformerError
from glassformer.models import MODELS, row
from glassformer.wording import did_you_mean

Names = str | Path | Sequence[Path] | None


def _check_models(names: Names) -> None:
    """Raise if one is neither here nor a name on the hub."""
    from glassformer.data.text_files import local_path

    for name in map(str, _several(names)):
        if not is_hub_name(name) and not (path := local_path(name)).exists():
            raise GlassformerError(no_model(Path(str(path))))


def _check_runs(names: Names) -> None:
    for path in map(Path, _several(names)):
        if not path.exists():
            raise GlassformerError(no_run(path))


def _several(names: Names) -> Sequence[str | Path]:
    if names is None:
        return []
    return [names] if isinstance(names, str | Path) else names


known_model = before_running(_check_models)
known_run = before_running(_check_runs)


def tasks() -> dict[str, list[str]]:
    """The tasks of `finetune`, each with the pre-trained models that it can build on."""
    bodies: dict[str, list[str]] = {}
    for model in MODELS.values():
        if model.body:
            bodies.setdefault(model.task, []).append(model.body)
    return bodies


def known_task(text: str) -> str:
    if text not in (names := tasks()):
        cure = did_you_mean(text, names, f"Choose one of: {', '.join(names)}.")
        raise typer.BadParameter(f"there is no task {text!r}. {cure}")
    return text


def check_preset(model: str, preset: str | None) -> None:
    """Raise unless there is a model of that name, with that preset."""
    of_model = row(model)
    if preset is not None:
        of_model.preset(preset)
