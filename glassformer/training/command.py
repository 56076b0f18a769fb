"""What `glassformer train` means: which recipe, which folder, start or continue."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from glassformer.checkpoint.open import open_config, open_preprocessing
from glassformer.config import COMMAND_LINE, Origins, Values, flatten, write_yaml
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import locked
from glassformer.machine import processes
from glassformer.models import MODELS, row, trainable
from glassformer.options import by_section
from glassformer.progress import ProgressLine
from glassformer.tasks import task_of
from glassformer.tasks.fitting import with_tokens
from glassformer.tasks.recipe import DATA_TO_LEARN_FROM, Recipe
from glassformer.training.dry_run import measure_rest, measure_run
from glassformer.training.preparation import (
    collect_values,
    make_recipe,
    merge,
    prepare_temporarily,
    recipe_keys,
    share_batches,
    with_processes,
)
from glassformer.training.report import Outcome
from glassformer.training.run import follow, launch, resume
from glassformer.training.run import train as train_from_recipe
from glassformer.training.run_folder import (
    HARMLESS,
    WHO_COMPUTES,
    RunFolder,
    differences,
    in_words,
    refused,
)
from glassformer.wording import an

# --- train --from ---
# A training that continues a trained model is a recipe like any other, with `finetune.head: kept`.
# Its model is filled in here, and its tasks take over their preprocessing instead of fitting a new
# one.

KEPT = "kept"


def continue_model(values: Values, origins: Origins) -> Values:
    """The sections of a recipe, with the model that it continues filled in. A key of the model that
    contradicts it is an error."""
    start, section = values.get("finetune"), values.get("model") or {}
    if not isinstance(start, dict) or not isinstance(section, dict):
        return values
    if start and not start.get("model"):
        raise UsageError(
            f"{' and '.join(_options(start))} changes a trained model, and none is given. Pass it "
            "with --from MODEL."
        )
    if start.get("head") != KEPT:
        return values
    source = str(start["model"])
    name, config = open_config(source)
    if section.get("name") not in (None, name):
        row(str(section["name"]))  # which reports a misspelt name
        raise UsageError(f"{source} is {an(name)}, not {an(section['name'])}. Leave out the name.")
    if task_of(name).fit is not None:
        raise UsageError(
            f"{an(name)} is not trained by gradient steps, so it cannot be trained further. Run "
            f"glassformer finetune with --task {row(name).task} again."
        )
    model = config.model_dump(mode="json")
    for key, value in section.items():
        if value is None or key == "name":
            continue
        if key == "preset":
            raise UsageError("--preset is for new models, and --from continues one. Leave it out.")
        if key.endswith("dropout") or key not in model:  # an unknown key is reported later
            model[key] = value
        elif value != model[key]:
            origin = origins.get(f"model.{key}")
            option = origin if isinstance(origin, str) else f"model.{key}"
            raise UsageError(
                f"{option} is {_shown(value)}, but the model in {source} has {_shown(model[key])}, "
                "and --from continues it as it is. Leave it out."
            )
    values = values | {"model": {"name": name, **model}, "finetune": dict(start)}
    return _with_vocabulary(values, source)


def _with_vocabulary(values: Values, source: str) -> Values:
    """The sections with another tokenizer, if one is given, or more tokens; and with what the data
    has in common with that of the model."""
    model, start = values["model"], values["finetune"]
    preprocessing = open_preprocessing(source)
    tokenizer = values.get("tokenizer")
    if isinstance(tokenizer, dict) and any(tokenizer.values()):
        if not preprocessing.tokenizers:
            raise UsageError(f"{source} reads no text. Leave out --tokenizer.")
        start["tokenizer"] = "new"
    if start.get("tokenizer") == "new":
        model |= {key: None for key in preprocessing.sizes if key.endswith("vocab_size")}
    tokens = start.get("add_tokens") or ()
    grown = with_tokens(preprocessing, [tokens] if isinstance(tokens, str) else tokens, source)
    for key, size in grown.sizes.items():
        if tokens and key.endswith("vocab_size") and size is not None:
            model[key] = max(size, model[key])
    data = values.get("data")
    if isinstance(data, dict):
        data = dict(data)
        for key in ("chat_template", "reverse"):
            value = getattr(preprocessing, key, None)
            if value and not (key == "reverse" and data.get("source_paths")):
                data.setdefault(key, list(value) if key == "chat_template" else value)
        values = values | {"data": data}
    return values


def _options(start: Values) -> list[str]:
    keys = [key for key, value in start.items() if value is not None and key != "head"]
    return [f"--{key.replace('_', '-')}" for key in keys] or ["finetune"]


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- the command ---


@dataclass(frozen=True)
class Request:
    """A command line: what was given, and how."""

    recipe: Path | None = None
    flags: Values = field(default_factory=dict)
    assignments: Sequence[str] = ()
    out: Path | None = None
    resume: bool = False
    force: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    """The option that gave each key among the flags."""
    began: float = field(default_factory=time.time)
    """When the command began: a time limit counts from then."""

    def given(self) -> tuple[Values, Origins]:
        return collect_values(self.recipe, self.flags, self.assignments, self.options)


def request(
    sections: Values, options: Mapping[str, Any], assignments: Sequence[str] = (), **run: Any
) -> Request:
    """What options ask for. `sections` of the recipe are given already; of `options`, those that
    set no key are left out. `run` is the rest: the folder, and how it is used."""
    flags, origins = by_section(options)
    merge(sections, flags)
    return Request(flags=sections, assignments=assignments, options=origins, **run)


def recipe_text(request: Request, as_json: bool, stream: TextIO) -> str:
    """Every key with its value, as a training of this data would choose it."""
    recipe, run = _recipe(request)
    if request.resume and run.exists:
        recipe = _resumed(request, run)
    else:
        with ProgressLine(stream, "reading the data …"), prepare_temporarily(recipe) as objective:
            recipe = objective.recipe
    if as_json:
        return json.dumps(recipe.model_dump(mode="json"), ensure_ascii=False) + "\n"
    return write_yaml(recipe)


def dry_run(request: Request, as_json: bool, stream: TextIO) -> str:
    recipe, run = _recipe(request)
    if request.resume and run.exists:
        result = measure_rest(run, _resumed(request, run), stream)
    else:
        result = measure_run(recipe, stream, request.began)
        if run.exists and not request.force:
            note = f"note: {run.path} already contains a run: add --force, or choose another --out"
            result = replace(result, notes=(*result.notes, note))
    return json.dumps(result.as_json()) if as_json else result.text()


def train(request: Request, stream: TextIO) -> Outcome:
    recipe, run = _recipe(request)
    if not processes.is_first():
        return follow(run)
    if processes.is_other_node(recipe.training.num_nodes):
        return launch(run, recipe.training)
    with locked(run.path):
        if request.resume and run.exists:
            if (resumed := _resumed(request, run)) != run.recipe():
                run.write_recipe(resumed)
            return resume(run, stream, request.began)
        if request.resume:
            print(f"{run.path} contains no run to resume: starting a new one", file=stream)
        elif not request.force:
            run.refuse_to_overwrite()
        return train_from_recipe(recipe, run, stream, request.began)


def _resumed(request: Request, run: RunFolder) -> Recipe:
    """The recipe with which a run continues: its own, with the changes that are allowed."""
    saved = run.recipe()
    given, origins = request.given()
    changed = list(differences(saved, given))
    if wrong := refused(changed, request.force):
        cure = "Omit the change to continue as before, or choose another --out to start over."
        if not refused(wrong, is_forced=True):
            cure += (
                " --force continues with the change, but the run is then no longer reproducible."
            )
        by_option = {k: name for k, name in request.options.items() if origins.get(k) == name}
        raise GlassformerError(
            f"{run.path} was started with a different recipe: {in_words(wrong, by_option)}. {cure}"
        )
    for key, _, new in changed:
        if key == "training.max_steps" and new <= run.last_step():
            raise GlassformerError(
                f"{run.path} is already at step {run.last_step():,}. Pass a larger --max-steps."
            )
    accepted = HARMLESS | WHO_COMPUTES | {key for key, _, _ in changed}
    changes = {k: v for k, v in flatten(given) if v is not None and k in accepted}
    values = saved.model_dump(mode="json")
    for key, value in changes.items():
        values["training"][key.removeprefix("training.")] = value
    if saved.training.replans and {"training.max_steps", "training.time_limit"} & changes.keys():
        # What was planned ends here: the learning rate is again that of a training of this length.
        values["training"]["replans"] = []
        if "training.max_steps" in changes:
            last = saved.decided.plans[-1].model_dump(include={"eval_steps", "save_steps"})
            values["training"] |= {"time_limit": None, **last}
    return share_batches(with_processes(make_recipe(values) if changes else saved), saved)


def _recipe(request: Request) -> tuple[Recipe, RunFolder]:
    """The recipe asked for, and the run's folder. A run to be resumed brings its own recipe."""
    values, origins = request.given()
    data = values.get("data") or {}  # a value that is no section is reported by make_recipe
    has_data = not isinstance(data, dict) or any(map(data.get, DATA_TO_LEARN_FROM))
    if request.resume and request.out is not None and not has_data:
        run = RunFolder(request.out, request.force)
        if not run.exists:
            raise GlassformerError(f"there is nothing to resume: {run.missing()}")
        return with_processes(run.recipe()), run
    values = continue_model(values, origins)
    name = dict(flatten(values)).get("model.name")
    if request.resume and request.out is None and name is None:
        raise UsageError("--resume needs the run to continue: pass --out FOLDER.")
    _check_options(request, name)
    if request.recipe is None:
        recipe = make_recipe(values, COMMAND_LINE, origins, UsageError)
    else:
        recipe = make_recipe(values, str(request.recipe), origins)
    return with_processes(recipe), RunFolder(request.out or _default_folder(recipe), request.force)


def _check_options(request: Request, name: Any) -> None:
    """An option that belongs to other models is refused by its name, with theirs."""
    if name not in MODELS:
        return
    if {"training.max_steps", "training.num_train_epochs"} <= request.options.keys():
        raise UsageError("--max-steps and --num-train-epochs cannot be combined. Pass one.")
    for key, option in request.options.items():
        if not _has_key(name, key):
            raise UsageError(
                f"{option} does not apply to {name}. It is an option of: "
                f"{', '.join(model for model in trainable() if _has_key(model, key))}."
            )


def _has_key(model: str, key: str) -> bool:
    section, _, field = key.partition(".")
    return field in recipe_keys(model).get(section, ())


def _default_folder(recipe: Recipe) -> Path:
    """runs/gpt-notes for notes.txt, runs/gpt-wiki for a dataset somebody/wiki:config@split;
    runs/bert-reviews for what began with runs/bert."""
    name = recipe.data_names[0]
    path = Path(name).expanduser()
    source = path.resolve().name if path.exists() else re.split("[@:]", name)[0]
    first = recipe.model_name if recipe.start is None else Path(recipe.start.model).name
    return Path("runs") / f"{first}-{Path(source).name.split('.')[0] or 'data'}"
