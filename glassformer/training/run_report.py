"""A run as plain data, for its report: what was trained on what, how it went, what came of it.

It follows from the files of the run alone, without the name of its folder or the time: equal runs
have equal reports, whenever and wherever they are made.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from glassformer import __version__
from glassformer.atomic_files import check_folder
from glassformer.checkpoint.model_folder import WEIGHTS, load_model
from glassformer.checkpoint.run_record import METRICS, curves_of, read_metrics, read_samples
from glassformer.config import Config
from glassformer.data.augmentation import AugmentationConfig
from glassformer.errors import GlassformerError
from glassformer.evaluation.chapter import Examination
from glassformer.evaluation.result import SMALLER_IS_BETTER, order
from glassformer.preprocessing import SETTINGS, load_preprocessing
from glassformer.runtime.host import prepare
from glassformer.tasks import task_of
from glassformer.tasks.recipe import Recipe
from glassformer.tasks.task import Objective
from glassformer.training.final_test import read_test
from glassformer.training.model_card import count_parameters
from glassformer.training.preparation import DATA, prepared
from glassformer.training.run_folder import RunFolder

Facts = dict[str, Any]

NAMES = {  # of settings whose key is an abbreviation
    "d_model": "width",
    "d_feedforward": "width of the feed-forward layer",
    "d_embedding": "width of the embeddings",
    "head_dim": "width of a head",
    "mlp_ratio": "feed-forward widths per width",
    "norm_eps": "epsilon of the norms",
    "vocab_size": "vocabulary",
    "char_ngrams": "longest sequence of characters",
    "ngrams": "longest sequence of tokens",
    "lr_scheduler_type": "learning rate schedule",
    "ema": "decay of the averaged weights",
    "max_grad_norm": "largest gradient norm",
}

# Of the section training: what people compare. The rest is in the recipe.
HIGHLIGHTS = (
    *("optimizer", "learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "ema"),
    *("max_grad_norm", "early_stopping", "seed", "device", "precision"),
)


def report_of(run: RunFolder) -> dict[str, Any]:
    """Everything that the report of a run shows, for JSON."""
    if not run.exists:
        raise GlassformerError(run.missing())
    recipe = run.recipe()
    threads = torch.get_num_threads()
    try:
        prepare(threads=recipe.training.num_threads or threads, precision="float32")
        return _report(run, recipe)
    finally:
        torch.set_num_threads(threads)


def _report(run: RunFolder, recipe: Recipe) -> dict[str, Any]:
    lost = _lost_data(run)
    objective = None if lost else prepared(recipe, run.path)
    rows = read_metrics(run.path / METRICS)
    record = objective or _Record.of(recipe, rows)
    model = None
    seen = Examination()
    if (run.path / WEIGHTS).is_file():
        model = load_model(run.path).model
        model.to(prepare(threads=torch.get_num_threads(), precision="float32").device)
        if objective is not None:
            seen = objective.examine(model)
    name = f"{recipe.model_name} {recipe.preset or ''}".rstrip()
    test = read_test(run.path)
    return {
        "title": f"{name}, trained on {_names(recipe.data_names)}",
        "facts": {
            "Model": _model_facts(recipe, model),
            "Data": _data_facts(run, recipe, objective),
            "Training": _training_facts(run, recipe, objective),
        },
        "measure": record.measure,
        "smaller_is_better": sorted(SMALLER_IS_BETTER),
        "best": _best(rows, record),
        "notes": [*lost, *seen.notes],
        "test": test and test.headline,
        "metrics": curves_of(rows),
        "about_loss": _about_loss(recipe),
        "samples": [{"step": step, "text": text} for step, text in read_samples(run.path)],
        "chapters": [each.as_json() for each in seen.chapters],
        "answers": {"measure": seen.measure, "rows": [asdict(each) for each in seen.answers]},
        "tensorboard": "tensorboard" in recipe.training.report_to,
        "version": __version__,
    }


def _lost_data(run: RunFolder) -> list[str]:
    """A sentence if the data of a run is missing or damaged."""
    try:
        check_folder(run.path / DATA)
    except GlassformerError as error:
        problem = str(error).replace(str(run.path / DATA), DATA)
        return [
            f"{problem} The report is made of the curves, the samples and the model. The chapters "
            "about held-out data are left out."
        ]
    return []


@dataclass(frozen=True)
class _Record:
    """What is known of an objective without its data, which may choose the measure."""

    measure: str
    decides: str

    @classmethod
    def of(cls, recipe: Recipe, rows: list[dict[str, str]]) -> "_Record":
        kind = task_of(recipe.model_name).objective
        measure: Any = kind.measure
        if measure is Objective.measure:
            measure = "loss"
        elif not isinstance(measure, str):  # of labels: macro F1 says more wherever it is recorded
            names = ("f1", "macro_f1", "accuracy")
            measure = next(name for name in names if not rows or f"val_{name}" in rows[0])
        decides: Any = kind.decides
        return cls(measure, decides if isinstance(decides, str) else measure)

    def rank(self, columns: Mapping[str, float]) -> tuple[float, float]:
        return order(self.decides, columns[f"val_{self.decides}"], columns["val_loss"])


def _names(paths: tuple[str, ...]) -> str:
    """Without folders, which differ between machines."""
    return ", ".join(Path(path).name or path for path in paths)


def _model_facts(recipe: Recipe, model: torch.nn.Module | None) -> Facts:
    facts: Facts = {"model": recipe.model_name, "preset": recipe.preset}
    facts["parameters"] = None if model is None else count_parameters(model)
    start = recipe.start
    if start is not None:
        how = "trained further from" if start.continues else "fine-tuned from"
        facts[how] = ", ".join(start.lineage) or Path(start.model).name
    shape = recipe.architecture().model_dump(mode="json")
    if shape.get("positions") != "rotary":
        shape.pop("rotary_base", None)
    facts |= {_words(key): value for key, value in shape.items() if _is_plain(value)}
    if labels := shape.get("labels"):
        facts["labels"] = len(labels)
    return _known(facts)


def _data_facts(run: RunFolder, recipe: Recipe, objective: Objective | None) -> Facts:
    data = recipe.data
    facts: Facts = {"data": _names(recipe.data_names)}
    if objective is not None:
        facts |= {_words(key): value for key, value in objective.dataset.facts().items()}
    held_out = [
        path
        for key, paths in data.model_dump().items()
        if key.startswith("validation_") and key.endswith("paths")
        for path in paths
    ]
    if held_out:
        facts["held out"] = _names(tuple(held_out))
    elif "validation_fraction" in type(data).model_fields:
        facts["held out"] = "a part of the data"
    if recipe.test_paths:
        facts["test data"] = _names(recipe.test_paths)
    if objective is not None:
        facts |= objective.dataset.preprocessing.summary()
    elif (run.path / SETTINGS).is_file():
        facts |= load_preprocessing(run.path).summary()
    return _known(facts)


def _training_facts(run: RunFolder, recipe: Recipe, objective: Objective | None) -> Facts:
    config = recipe.decided
    batch = config.per_device_train_batch_size * config.batches_per_update
    done = run.last_step()
    facts: Facts = {"steps": config.last_step}
    if done < config.last_step:
        facts["steps"] = f"{done:,} of {config.last_step:,}"
    if objective is not None:
        epochs = config.last_step * config.batches_per_update / objective.batches.per_epoch
        facts["epochs"] = round(epochs, 2)
    facts["rows in a batch"] = batch
    values = config.model_dump(mode="json")
    facts |= {_words(key): values[key] for key in HIGHLIGHTS if values[key] != 0 or key == "seed"}
    own = getattr(recipe, "objective", None)  # a section of some tasks
    if isinstance(own, Config):
        chosen = own.model_dump(mode="json").items()
        facts |= {_words(key): value for key, value in chosen if value}
    return _known(facts)


def _words(key: str) -> str:
    return NAMES.get(key) or key.removeprefix("num_").replace("_", " ")


def _is_plain(value: Any) -> bool:
    """Whether a value of a config is worth a line: not a switch, and not turned off."""
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != 0


def _known(facts: Facts) -> Facts:
    return {key: value for key, value in facts.items() if value is not None}


def _about_loss(recipe: Recipe) -> str:
    """Why the two losses of the curves differ, beside what was learned by heart."""
    shape = recipe.architecture().model_dump(mode="json")
    values = recipe.model_dump(mode="json")
    own = values.get("objective") or {}
    causes = {
        "dropout": any(value for key, value in shape.items() if key.endswith("dropout")),
        "label smoothing": own.get("label_smoothing"),
        "augmented images": _augments(values.get("augmentation") or {}),
    }
    parts = [name for name, is_on in causes.items() if is_on]
    text = "Training loss is the mean over the batches since the point before"
    if parts:
        those = "them" if len(parts) > 1 else "it"
        text += f", with {_listed(parts)}; validation loss is measured without {those}"
    else:
        text += "; validation loss is measured on held-out data"
    if recipe.training.ema:
        text += f"{', and' if parts else ''} with averaged weights"
    return f"{text}. So training loss may be the higher one." if parts else f"{text}."


def _augments(values: dict[str, Any]) -> bool:
    """Whether images are varied at all."""
    usual = AugmentationConfig().model_dump()
    strengths = {key: value for key, value in values.items() if key != "magnitude"}
    return any(value not in (None, usual.get(key)) for key, value in strengths.items())


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _best(rows: list[dict[str, str]], record: Objective | _Record) -> dict[str, Any] | None:
    """The step whose model was kept, as the training chose it: the first of the best."""
    scores = {
        int(row["step"]): {
            key: float(text) for key, text in row.items() if key.startswith("val_") and text
        }
        for row in rows
        if row.get("val_loss")
    }
    if not scores:
        return None
    step = min(scores, key=lambda step: record.rank(scores[step]))
    return {"step": step, "scores": scores[step]}
