"""What `glassformer train` means: which recipe, which folder, begin or go on."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from glassformer.checkpoint.folder import load_config
from glassformer.config import Origins, Values, flatten, write_yaml
from glassformer.errors import GlassformerError, UsageError
from glassformer.models import MODELS, TO_TRAIN
from glassformer.models.classifier import body_config
from glassformer.training import begin
from glassformer.training.outcome import Outcome
from glassformer.training.prepare import rehearsed
from glassformer.training.recipe import (
    HARMLESS,
    RECIPES,
    Recipe,
    differences,
    given_values,
    in_words,
    make_recipe,
    refused,
)
from glassformer.training.run_folder import RunFolder

DROPOUT = 0.1  # at least so much when a trained model is fine-tuned


@dataclass(frozen=True)
class Request:
    """A command line, as said."""

    recipe: Path | None
    flags: Values
    assignments: list[str]
    out: Path | None
    resume: bool
    force: bool
    options: Mapping[str, str] = field(default_factory=dict)
    """By which option each key among the flags was said."""

    def given(self) -> tuple[Values, Origins]:
        return given_values(self.recipe, self.flags, self.assignments, self.options)


def recipe_text(request: Request, as_json: bool) -> str:
    """Every key with its value, as a training of this data would choose it."""
    recipe, run = _recipe(request)
    if not (request.resume and run.exists):
        with rehearsed(recipe) as ready:
            recipe = ready.recipe
    if as_json:
        return json.dumps(recipe.model_dump(mode="json"), ensure_ascii=False) + "\n"
    return write_yaml(recipe)


def dry_run(request: Request, as_json: bool) -> str:
    from glassformer.training.dry_run import rehearse, rehearse_rest

    recipe, run = _recipe(request)
    if request.resume and run.exists:
        plan = rehearse_rest(run, _resumed(request, run))
    else:
        plan = rehearse(recipe)
    return json.dumps(plan.as_json()) if as_json else plan.text()


def train(request: Request, stream: TextIO) -> Outcome:
    recipe, run = _recipe(request)
    if request.resume and run.exists:
        if (resumed := _resumed(request, run)) != run.recipe():
            run.write_recipe(resumed)
        return begin.resume(run, stream)
    _refuse_to_overwrite(request, run)
    if request.resume:
        print(f"{run.path} holds no run to resume: this is its beginning", file=stream)
    return begin.train(recipe, run, stream)


def _resumed(request: Request, run: RunFolder) -> Recipe:
    """The recipe with which a run goes on: its own, and what of it may be changed."""
    saved = run.recipe()
    given, origins = request.given()
    changed = list(differences(saved, given))
    if wrong := refused(changed, request.force):
        cure = "Leave that out to go on as it was, or say another --out to begin anew."
        if not refused(wrong, is_forced=True):
            cure = cure[:-1] + "; --force goes on with it, and the run is no longer exact."
        said = {key: each for key, each in request.options.items() if origins.get(key) == each}
        raise GlassformerError(
            f"{run.path} was begun with another recipe: {in_words(wrong, said)}. {cure}"
        )
    for key, _, new in changed:
        if key == "training.max_steps" and new <= run.last_step():
            raise GlassformerError(
                f"{run.path} is at step {run.last_step():,} already. Say more steps."
            )
    accepted = HARMLESS | {key for key, _, _ in changed}
    taken = {k: v for k, v in flatten(given) if v is not None and k in accepted}
    values = saved.model_dump(mode="json")
    for key, value in taken.items():
        values["training"][key.removeprefix("training.")] = value
    return make_recipe(values) if taken else saved


def _recipe(request: Request) -> tuple[Recipe, RunFolder]:
    """The recipe asked for, and the run's folder. A run to be resumed brings its own recipe."""
    values, origins = request.given()
    if request.resume and request.out is not None and not values.get("data", {}).get("paths"):
        run = RunFolder(request.out, request.force)
        if not run.exists:
            raise GlassformerError(f"{run.missing()} There is nothing to resume.")
        return run.recipe(), run
    _check_options(request, dict(flatten(values)).get("model.name"))
    if request.recipe is None:
        recipe = make_recipe(values, "the command", origins, UsageError)
    else:
        recipe = make_recipe(values, str(request.recipe), origins)
    return recipe, RunFolder(request.out or _default_folder(recipe), request.force)


def _check_options(request: Request, name: Any) -> None:
    """An option that is of other models is told by its name, and with theirs."""
    said = {key for key, value in flatten(request.flags) if value is not None}
    for key, option in request.options.items():
        having = [each for each in MODELS if _has_key(each, key)]
        if name in MODELS and key in said and name not in having:
            raise UsageError(
                f"{option} is not an option of {name}: it is one of "
                f"{', '.join(each for each in TO_TRAIN if each in having)}."
            )


def _has_key(name: str, key: str) -> bool:
    """Whether a recipe for this model may have that key. What is no size of the model and says
    nothing of labels, all have."""
    section, _, field = key.partition(".")
    if section == "model":
        return field in ("name", "preset", *MODELS[name].config.model_fields)
    data: Any = RECIPES[MODELS[name].task].model_fields["data"].annotation
    return section != "data" or field in data.model_fields


def on_top_of(folder: Path, task: Literal["classify", "tag"]) -> Values:
    """The section `model` of a recipe that gives the model in a folder a new head."""
    _, config = load_config(folder)
    name, values = body_config(config, task)
    # There are fewer examples than there was text: less may be learned by heart.
    return {"name": name, **values, "dropout": max(DROPOUT, values["dropout"])}


def _default_folder(recipe: Recipe) -> Path:
    """runs/gpt-notes for notes.txt, runs/gpt-wiki for a data set somebody/wiki:config@split;
    runs/bert-reviews for what began with runs/bert."""
    name = recipe.data.names[0]
    path = Path(name).expanduser()
    found = path.resolve().name if path.exists() else re.split("[@:]", name)[0]
    first = recipe.model_name if recipe.start is None else Path(recipe.start.model).name
    return Path("runs") / f"{first}-{Path(found).name.split('.')[0] or 'data'}"


def _refuse_to_overwrite(request: Request, run: RunFolder) -> None:
    if not run.exists or request.force or request.resume:
        return
    if run.is_finished():
        raise GlassformerError(
            f"{run.path} exists and holds a finished run. Say --force to start over, or another "
            "--out."
        )
    raise GlassformerError(
        f"{run.path} exists and holds a run that stopped. Say --resume to go on from step "
        f"{run.last_step():,}, --force to start over, or another --out."
    )
