"""The options of `train` and `finetune`: each sets a key that there is, by a value of its type."""

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from glassformer.config import Config
from glassformer.models import MODELS, row
from glassformer.options import (
    OPTIONS,
    FinetuneOptions,
    TrainOptions,
    as_typed,
    by_section,
    key_of,
    options_of,
)
from glassformer.tasks import task_of

PAGE = (Path(__file__).parent.parent / "docs/recipes.md").read_text(encoding="utf-8")
KINDS = options_of(TrainOptions) | options_of(FinetuneOptions)


def parts(kind: Any) -> set[Any]:
    """What a type is made of; the choices of a literal are values."""
    return {kind}.union(*map(parts, get_args(kind)))


def types_of(key: str) -> list[set[Any]]:
    """The types of a key, in the recipes of all models that have it."""
    section, _, name = key.partition(".")
    types = []
    for model in MODELS:
        config = row(model).config
        if section != "model":
            field = task_of(model).recipe.model_fields.get(section)
            config = next(
                iter(
                    {
                        kind
                        for kind in parts(field and field.annotation)
                        if hasattr(kind, "model_fields")
                    }
                ),
                Config,
            )
        if name in config.model_fields:
            types.append(parts(config.model_fields[name].annotation))
    return types


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - {"preset"}))
def test_an_option_sets_a_key_that_some_model_has(name: str) -> None:
    kind, types = KINDS[name], types_of(key_of(name))
    assert types
    if get_origin(kind) is Literal:
        assert {*get_args(kind)} == {
            part for each in types for part in each if isinstance(part, str)
        }
    elif kind in (int, float, bool):
        assert all(kind in each for each in types)


def test_the_options_on_the_page_are_those_that_there_are() -> None:
    table = re.findall(r"^\| `(--.*?)` \| `(\w+\.\w+)` \| (.*) \|$", PAGE, re.M)
    assert table == [
        (as_typed(name), key_of(name), option.help) for name, option in OPTIONS.items()
    ]


def test_options_are_sorted_into_sections_and_name_what_set_a_key() -> None:
    options = {"data": ["a", Path("b")], "from_": Path("run"), "bidirectional": False, "ema": None}
    sections, origins = by_section(options | {"quiet": True, "batch_size": 4})
    assert sections == {
        "data": {"paths": ["a", "b"]},
        "model": {"bidirectional": False},
        "finetune": {"model": "run", "head": "kept"},
        "training": {"per_device_train_batch_size": 4},
    }
    assert origins == {
        "data.paths": "--data",
        "model.bidirectional": "--one-direction",
        "finetune.model": "--from",
        "training.per_device_train_batch_size": "--batch-size",
    }
