"""A folder as Hugging Face's tools write it becomes a model of ours, and the other way round.

    config.json           which family, and its shape
    model.safetensors     its weights, perhaps in several files
    modules.json          of sentence-transformers: how the vectors of a text become one

Code in such a folder is never run: a model of a family that is not in the table is refused.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from glassformer.atomic_files import read_json
from glassformer.checkpoint.model_folder import LARGEST_TEXT
from glassformer.checkpoint.open import is_ours
from glassformer.config import Config, Values
from glassformer.config_errors import reason
from glassformer.errors import GlassformerError
from glassformer.preprocessing import Preprocessing
from glassformer.pretrained.conversion import read_model
from glassformer.pretrained.families import family_of
from glassformer.pretrained.families.bert import SENTENCES
from glassformer.pretrained.family import Layout
from glassformer.pretrained.foreign_model import ForeignModel, converted
from glassformer.pretrained.hub_inputs import KINDS, LENGTHS, generation_settings, settings_of
from glassformer.pretrained.peft_adapter import Adapter
from glassformer.pretrained.their_values import WrongValueError, check_types
from glassformer.pretrained.weight_files import INDEX, SINGLE, open_weights
from glassformer.wording import an, counted

CONFIG, MODULES, PROMPTS = "config.json", "modules.json", "config_sentence_transformers.json"


@dataclass(frozen=True)
class Description:
    """What config.json says."""

    theirs: Values
    layout: Layout
    config: Config


def is_hugging_face(folder: Path) -> bool:
    """Whether a folder has a config.json that is not one of ours."""
    path = folder / CONFIG
    return path.is_file() and path.stat().st_size <= LARGEST_TEXT and not is_ours(folder)


def describe(folder: Path, adapter: Adapter | None = None) -> Description:
    """The family of the model in a folder, and its config as one of ours; with the head that an
    adapter brings."""
    for path in folder.iterdir():
        if path.suffix in (".json", ".jinja", ".spm") and not path.is_file():
            raise GlassformerError(f"{path} is not a file.")
        if path.suffix == ".json":
            _check_size(path)
    where = str(folder / CONFIG)
    theirs = read_json(folder / CONFIG)
    if "auto_map" in theirs and "model_type" not in theirs:
        raise GlassformerError(f"{where}: the model needs its own code, which is never run.")
    if theirs.get("quantization_config"):
        raise GlassformerError(
            f"{where}: quantization_config is set, but quantised weights cannot be imported from "
            "safetensors. Use the release in full precision, or a GGUF file."
        )
    family = family_of(theirs.get("model_type"), where)
    try:
        check_types(theirs)
    except WrongValueError as error:
        raise GlassformerError(f"{where}: {error}") from None
    if (folder / MODULES).is_file():
        theirs = theirs | {SENTENCES: _sentences(folder)}
    if adapter is not None:
        theirs = adapter.changed(family, theirs)
    layout = family.layout(theirs.get("architectures"), where)
    try:
        return Description(theirs, layout, layout.our_config(theirs, where))
    except (TypeError, KeyError, ValueError, AttributeError, ArithmeticError) as error:
        raise GlassformerError(
            f"{where} cannot be read as {an(layout.architecture)}: {error!r}. Copy it again."
        ) from None


def _check_size(path: Path) -> None:
    if path.is_file() and path.stat().st_size > LARGEST_TEXT:
        raise GlassformerError(f"{path} is far too large for a file of this name.")


def read_preprocessing(folder: Path, adapter: Adapter | None = None) -> Preprocessing:
    description = describe(folder, adapter)
    return _inputs(folder, description)


def read_generation(folder: Path, adapter: Adapter | None = None) -> Values:
    """The defaults of generation."""
    return generation_settings(folder, describe(folder, adapter).layout.inputs)[0]


def _inputs(folder: Path, description: Description) -> Preprocessing:
    values = {**description.layout.defaults, **description.theirs}
    try:
        preprocessing = KINDS[description.layout.inputs].read(folder, values)
    except (TypeError, KeyError, ValueError, ArithmeticError) as error:
        why = reason(error.errors()[0]) if isinstance(error, ValidationError) else repr(error)
        raise GlassformerError(
            f"{folder}: its preprocessing cannot be read: {why}. Copy the whole folder."
        ) from None
    preprocessing.check_model(description.config, str(folder), "Copy the whole folder.")
    return preprocessing


def read_folder(folder: Path, adapter: Adapter | None = None) -> ForeignModel:
    """The model in a folder, converted to one of ours, with an adapter merged into it."""
    description = describe(folder, adapter)
    layout = description.layout
    preprocessing = _inputs(folder, description)
    source: Any = open_weights(folder).renamed(layout.renames)
    if adapter is not None:
        own = read_json(folder / CONFIG).get("architectures")
        is_other = own != description.theirs.get("architectures")
        source = adapter.applied(layout, description.config, source, is_other)
    where = str(folder / (SINGLE if (folder / SINGLE).is_file() else INDEX))
    model, left_out = read_model(layout, description.config, source, where)
    generation, ignored = generation_settings(folder, layout.inputs)
    notes = [] if adapter is None else [adapter.about()]
    if left_out:
        shown = ", ".join(left_out[:4]) + (", …" if len(left_out) > 4 else "")
        notes.append(f"{counted(len(left_out), 'tensor')} left out, which it does not use: {shown}")
    if source.types - {"float32"}:
        types = ", ".join(sorted(source.types - {"float32"}))
        notes.append(f"the weights were stored as {types} and are computed as float32")
    if ignored:
        notes.append(f"settings of generation that are not applied: {', '.join(sorted(ignored))}")
    if not getattr(description.config, "has_head", True) and SENTENCES not in description.theirs:
        notes.append("there is no modules.json: `embed` takes the mean of the vectors of a text")
    return converted(layout.architecture, model, preprocessing, notes, generation)


def _sentences(folder: Path) -> Values:
    """What the modules of sentence-transformers do with the vectors of a text."""
    try:
        modules: Any = json.loads((folder / MODULES).read_text(encoding="utf-8"))
        kinds = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
        paths = [str(module.get("path", "")) for module in modules]
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise GlassformerError(f"{folder / MODULES} is damaged. Copy it again.") from None
    if unknown := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise GlassformerError(
            f"{folder / MODULES}: the module {unknown[0]} is unknown. These are known: "
            "Transformer, Pooling, Normalize."
        )
    settings: Values = {"normalize": "Normalize" in kinds}
    if "Pooling" in kinds:
        place = paths[kinds.index("Pooling")]
        if place in ("", ".", "..") or Path(place).name != place:
            raise GlassformerError(
                f'{folder / MODULES}: the path "{place}" of its pooling is not the name of a '
                "folder beside it. Copy it again."
            )
        _check_size(folder / place / CONFIG)
        settings["pooling"] = _pooling(folder / place / CONFIG)
    length = settings_of(folder, LENGTHS).get("max_seq_length")
    if isinstance(length, int):
        settings["sentence_length"] = length
    if prompt := settings_of(folder, PROMPTS).get("default_prompt_name"):
        raise GlassformerError(
            f'{folder / PROMPTS}: the prompt "{prompt}" before every text (default_prompt_name) '
            "cannot be imported. Set it to null, and write the prompt before your texts."
        )
    return settings


def _pooling(path: Path) -> str:
    values = read_json(path)
    if isinstance(mode := values.get("pooling_mode"), str):  # newer releases name it
        modes = [mode]
    else:
        names = {"mean_tokens": "mean", "cls_token": "cls", "max_tokens": "max"}
        switched_on = [key for key, on in values.items() if key.startswith("pooling_mode_") and on]
        modes = [names.get(key.removeprefix("pooling_mode_"), key) for key in switched_on]
    kinds = {"mean": "mean", "cls": "first", "max": "max"}
    if len(modes) != 1 or modes[0] not in kinds:
        raise GlassformerError(
            f"{path}: pooling by {' and '.join(modes) or 'nothing'} is unknown. These are known: "
            f"{', '.join(kinds)}."
        )
    return kinds[modes[0]]
