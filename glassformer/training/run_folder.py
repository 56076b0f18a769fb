"""A run on disk.

runs/gpt-notes/
  recipe.yaml            everything that decided the training
  data/                  the text as tokens, and the tokenizer
  metrics.csv            losses by step
  samples.txt            what the model wrote on the way
  test.json              scores of the best model on test data, if there is any
  baseline.json          scores of the baseline, after `compare`
  report.html            a page with all of this to look at, when the training has ended
  events.out.tfevents…   the same curves for TensorBoard
  checkpoints/step-N/    all that is needed to continue from step N
  snapshots/             the weights at a few steps, to look at how the model learned
  config.json, model.safetensors, tokenizer.json, README.md …
                         the best model so far: a folder for every verb
"""

import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.checkpoint.model_folder import WEIGHTS, file_names, forget_snapshots
from glassformer.checkpoint.model_names import A_RUN, CONFIG, no_run
from glassformer.checkpoint.training_state import (
    OLD_KEY,
    SavedState,
    StepState,
    checked,
    load_values,
)
from glassformer.config import Values, flatten, read_yaml, write_yaml
from glassformer.errors import GlassformerError, UsageError
from glassformer.files import (
    MANIFEST,
    check_folder,
    damage,
    discard,
    explained,
    files_beside_manifest,
    sync,
    take_place,
    write_file,
)
from glassformer.tasks import task_of
from glassformer.tasks.recipe import RECIPE, DecidedTraining, Recipe
from glassformer.training.preparation import complete, make_recipe, merge

# --- with which changes of its recipe a run can continue ---

Change = tuple[str, Any, Any]  # a key, its value before, its value now

# These change what is written and when, never what the model becomes.
HARMLESS = {
    f"training.{key}"
    for key in ("save_steps", "save_total_limit", "snapshots", "logging_steps", "report_to")
}

# These change who computes what: the model stays the same up to rounding.
WHO_COMPUTES = {
    f"training.{key}" for key in ("devices", "num_nodes", "strategy", "checkpoint_activations")
}
REPLANS = "training.replans"
ACCUMULATION = "training.gradient_accumulation_steps"

NEVER_LEARNED = {"data.test_paths"}  # the model is only evaluated on it, at the end

# These change what the model becomes, and can be changed by force. The others would not fit the
# saved state.
CHANGEABLE = {
    f"training.{key}"
    for key in (
        "max_steps",
        "per_device_train_batch_size",
        "learning_rate",
        "lr_scheduler_type",
        "min_lr_rate",
        "warmup_steps",
        "weight_decay",
        "adam_beta1",
        "adam_beta2",
        "max_grad_norm",
        "early_stopping",
        "seed",
        "eval_steps",
        "time_limit",
        "replans",
        "device",
        "precision",
        "num_threads",
    )
}


def fingerprint(recipe: Recipe, step: int) -> Values:
    """The keys on which the model depends at a step, with their values."""
    values = dict(flatten(recipe.model_dump(mode="json")))
    values[REPLANS] = [plan for plan in values[REPLANS] if plan["step"] <= step]
    values[ACCUMULATION] = recipe.training.batches_per_update  # on however many processes
    ignored = HARMLESS | NEVER_LEARNED | WHO_COMPUTES
    return {key: value for key, value in values.items() if key not in ignored}


def changes_between(before: Values, now: Values) -> list[Change]:
    return [
        (key, before.get(key), now.get(key))
        for key in before | now
        if before.get(key) != now.get(key)
    ]


def differences(saved: Recipe, given: Values) -> Iterator[Change]:
    """The given keys that change the saved recipe. A key that leaves the choice open, null or
    auto, changes nothing."""
    name = (given.get("model") or {}).get("name")
    if name not in (None, saved.model_name):  # then there is nothing else to compare
        yield "model.name", saved.model_name, name
        return
    wanted = complete(saved)
    before = dict(flatten(wanted))
    merge(wanted, given)
    now = dict(flatten(complete(make_recipe(wanted))))
    # A time limit has lowered the steps: giving both again is no change.
    has_limit = (given.get("training") or {}).get("time_limit") is not None
    ignored = HARMLESS | WHO_COMPUTES | ({"training.max_steps"} if has_limit else set())
    for key, value in flatten(given):
        is_open = value in (None, "auto")
        if not is_open and key not in ignored and before.get(key) != now[key]:
            yield key, before.get(key), now[key]


def refused(changes: Iterable[Change], is_forced: bool) -> list[Change]:
    """The changes with which a run cannot continue."""
    return [change for change in changes if not (is_forced and change[0] in CHANGEABLE)]


def in_words(changes: Iterable[Change], options: Mapping[str, str] | None = None) -> str:
    """`options` has the keys that were given by an option, with its name."""
    names = options or {}
    return "; ".join(
        f"{names.get(key, key)} was {old!r}, is now {new!r}" for key, old, new in changes
    )


# --- the steps of snapshots ---
#     0, 1, 2, 5, 10, 20, 50, 100 …, and the last step
#
# A model changes most at the beginning, so the steps lie ever further apart. They follow from the
# number of steps and the size of the model: a run that resumes keeps the same ones, unless a time
# limit changes the number on the way.

USUAL, FEWEST = 12, 4  # snapshots, if the recipe leaves it open; fewer show too little
USUAL_BYTES = 32_000_000  # of all of them
TOO_CLOSE = 0.9  # of the last step: after it, no other snapshot is of interest


def snapshot_steps(config: DecidedTraining, model: nn.Module) -> frozenset[int]:
    """The steps of a training, 0 for its beginning; none if the model is too large for that."""
    count = config.snapshots
    if count is None:
        count = min(USUAL, USUAL_BYTES // max(1, size_of(model)))
        count = count if count >= FEWEST else 0
    return frozenset(spread_steps(config.last_step, count))


def spread_steps(last: int, count: int) -> list[int]:
    """At most `count` steps up to the last one, without the first few of a long training: little
    happens in them."""
    if count < 2:
        return [last][:count]
    between = [
        digit * 10**power
        for power in range(len(str(last)))
        for digit in (1, 2, 5)
        if digit * 10**power <= TOO_CLOSE * last
    ]
    return [0, *between[len(between) - min(len(between), count - 2) :], last]


def size_of(model: nn.Module) -> int:
    """Bytes of the weights."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


# --- the folder ---

STEP = re.compile(r"step-(\d+)")
PARTS = re.compile(
    r"recipe\.yaml|data|(test|baseline)\.json|(report|story)\.html|metrics\.csv|samples\.txt|checkpoints"
    r"|snapshots"
    r"|events\.out\.tfevents\..*"
    r"|\..*\.(partial|old)|\.DS_Store"
)
REPORT, STORY = "report.html", "story.html"
BASELINE = "baseline.json"


def _followed(path: Path) -> Path:
    """The folder itself, for a path that is a link or goes through .. folders: while a run is
    replaced, neither leads to it any more."""
    if path.name and ".." not in path.parts and not path.is_symlink():
        return path
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise UsageError(f"{path} is a link that leads back to itself. Choose another --out.")
    if not real.name:
        raise UsageError(f"{path} is the root of a disk. Choose a folder for the run.")
    return real


class OlderStateError(GlassformerError):
    """A state that an earlier version has saved."""


class RunFolder:
    """The folder of a run."""

    def __init__(self, path: Path, is_forced: bool = False) -> None:
        self.path = _followed(path)
        self.is_forced = is_forced
        """May its recipe differ from the one that its states were trained with?"""

    @property
    def exists(self) -> bool:
        """Has a training begun here? The recipe is the last thing written before it does."""
        return (self.path / RECIPE).is_file()

    def checkpoints(self) -> list[tuple[int, Path]]:
        """(step, folder), oldest first."""
        parent = self.path / "checkpoints"
        folders = parent.iterdir() if parent.is_dir() else ()
        matches = [(STEP.fullmatch(folder.name), folder) for folder in folders]
        return sorted((int(match[1]), folder) for match, folder in matches if match)

    def checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step}"

    def cure(self, step: int) -> str:
        """The advice on a damaged checkpoint."""
        return f"Delete {self.checkpoint(step)} to continue from an earlier checkpoint."

    def last_step(self) -> int:
        states = self.checkpoints()
        return states[-1][0] if states else 0

    def last_good_state(self) -> tuple[SavedState | None, list[str]]:
        """The last undamaged state, with empty tensors, and what is wrong with those after it.
        Training from there (None: from the beginning) replaces the damaged ones."""
        problems: list[str] = []
        for step, _ in reversed(self.checkpoints()):
            try:
                return self.state(step), problems
            except OlderStateError:
                raise  # not damaged: whoever wrote it can continue it
            except GlassformerError as error:
                problems.append(str(error))
        return None, problems

    def is_finished(self) -> bool:
        """Has it made all its steps, or stopped early because it did not improve?"""
        config = self.recipe().decided
        if self.last_step() != config.last_step and config.early_stopping is None:
            return False  # known without reading all of the state
        state, _ = self.last_good_state()
        if state is None:
            return False
        has_given_up = config.early_stopping and state.standing.stale >= config.early_stopping
        return state.step == config.last_step or bool(has_given_up)

    def state(self, step: int, cure: str = "") -> SavedState:
        """The state of `step` with empty tensors, checked as a whole; an error, with advice, if
        anything is wrong with it."""
        folder, recipe = self.checkpoint(step), self.recipe()
        check_folder(folder, cure)
        values = load_values(folder)
        if OLD_KEY in values:
            raise OlderStateError(
                f"{folder} was saved by an earlier version of glassformer, whose runs this one "
                "cannot continue. Finish the run with that version, or start over with --force."
            )
        with damage(folder, cure):
            fits_at_once = task_of(recipe.model_name).fit is not None
            state = checked(SavedState if fits_at_once else StepState, values)
            if state.step != step:
                raise GlassformerError(f"step is {state.step:,}, but must be {step:,}")
            return state

    def check_recipe(self, state: SavedState, recipe: Recipe) -> None:
        """Raise if the state was trained with a recipe that gives other models."""
        before, now = state.standing.recipe, fingerprint(recipe, state.step)
        if wrong := refused(changes_between(before, now), self.is_forced):
            raise GlassformerError(
                f"{self.path / RECIPE} is not the recipe that the run was trained with: "
                f"{in_words(wrong)}. Change it back."
            )

    def missing(self) -> str:
        """A message on why there is no run here, and what to do."""
        if not self.path.exists():
            return no_run(self.path)
        if not self.path.is_dir():
            return f"{self.path} is a file, not a run folder. {A_RUN}"
        return f"{self.path} contains no run: there is no {RECIPE} in it. {A_RUN}"

    def lost(self) -> list[str]:
        """Files that a run has after its first validation, and that are missing."""
        names = [CONFIG, WEIGHTS, "metrics.csv", "samples.txt"]
        beside = [name for name in file_names() if (self.path / "data" / name).is_file()]
        return [name for name in (*names, *sorted(beside)) if not (self.path / name).is_file()]

    def forget_after(self, step: int) -> None:
        """Delete the states and snapshots of later steps: the training will write them again."""
        forget_snapshots(self.path, after=step)
        for later, folder in self.checkpoints():
            if later > step:
                shutil.rmtree(folder)

    def prune(self, config: DecidedTraining) -> None:
        """Keep the last states that were due, and the newest, due or not. A kill may come in the
        middle of this, even after the last step: so every start of a training does it, too."""
        for step, folder in self.checkpoints()[:-1]:
            if step % config.plan_at(step).save_steps:  # from a stop in between
                shutil.rmtree(folder)
        for _, folder in self.checkpoints()[: -config.save_total_limit]:
            shutil.rmtree(folder)
        for left_by_a_kill in (self.path / "checkpoints").glob(".step-*"):
            shutil.rmtree(left_by_a_kill)

    def recipe(self) -> Recipe:
        values, lines = read_yaml(self.path / RECIPE)
        return make_recipe(values, str(self.path / RECIPE), lines)

    def write_recipe(self, recipe: Recipe) -> None:
        write_file(self.path / RECIPE, write_yaml(recipe))

    def refuse_to_overwrite(self) -> None:
        """Raise if there is a run here already."""
        if not self.exists:
            return
        if self.is_finished():
            raise GlassformerError(
                f"{self.path} already contains a finished run. Use --force to start over, or "
                "choose another --out."
            )
        raise GlassformerError(
            f"{self.path} already contains a run (stopped at step {self.last_step():,}). Use "
            "--resume to continue it, --force to start over, or choose another --out."
        )

    @contextmanager
    def begin(self) -> Iterator[Path]:
        """A folder in which to set up a run. It takes its place when the block ends without an
        error, and only then does an older run go; if it fails, nothing half-written remains."""
        older = self.path.with_name(f".{self.path.name}.old")
        if older.exists() and not self.path.exists():
            older.rename(self.path)  # a kill came between the two renames below
        self._check_it_may_go()
        partial = self.path.with_name(f".{self.path.name}.partial")
        discard(partial)
        parents = [parent for parent in self.path.parents if not parent.exists()]
        try:
            with explained(self.path):
                partial.mkdir(parents=True)
            yield partial
            with explained(self.path):
                take_place(partial, self.path)
                sync(self.path.parent)
        except BaseException:
            discard(partial)
            for parent in parents:
                with suppress(OSError):  # another run may have come to stand there
                    parent.rmdir()
            raise

    def _check_it_may_go(self) -> None:
        """Only a run, a begun one, or an empty folder is ever deleted."""
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise GlassformerError(f"{self.path} is a file, not a folder. Choose another --out.")
        if Path.cwd().is_relative_to(self.path.resolve()):
            raise GlassformerError(
                f"{self.path} is the current folder or contains it, so it cannot become a run. "
                "Choose another --out, such as --out run."
            )
        names = [entry.name for entry in self.path.iterdir()]
        data = self.path / "data"
        foreign = self._foreign() + [f"data/{name}" for name in files_beside_manifest(data)]
        if foreign:
            what = f"and contains {foreign[0]}, which is not part of a run"
        elif names and not (data / MANIFEST).is_file():
            what = "and is not a run"
        else:
            return
        raise GlassformerError(f"{self.path} exists {what}. Choose another --out.")

    def _foreign(self) -> list[str]:
        """Names in the folder that are not part of a run."""
        ours, names = file_names(), sorted(entry.name for entry in self.path.iterdir())
        return [name for name in names if name not in ours and not PARTS.fullmatch(name)]

    def _is_a_run(self) -> bool:
        """A folder named data and a recipe may be the user's own. But only training writes
        checkpoints, metrics, and recipes that name the device instead of "auto"."""
        if self.checkpoints() or (self.path / "metrics.csv").is_file():
            return True
        try:
            return self.exists and self.recipe().decided.device != "auto"
        except GlassformerError:  # damaged, or without all the values of a run
            return False

    def set_aside_if_broken(self) -> Path | None:
        """Rename a run whose data was lost or damaged, so that another can take its place: it
        cannot continue, but its owner may want to look at it. Returns where it is now."""
        data = self.path / "data"
        is_whole = (data / MANIFEST).is_file() and not files_beside_manifest(data)
        if is_whole or not self._is_a_run() or self._foreign():
            return None
        names = (self.path.with_name(f"{self.path.name}.broken-{n}") for n in itertools.count(1))
        aside = next(path for path in names if not path.exists())
        with explained(self.path):
            self.path.rename(aside)
        return aside
