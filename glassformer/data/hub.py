"""Data sets of the Hugging Face hub: `namespace/name:config@split`.

    films/reviews@test  →  [{"text": "Fine film.", "label": "pos"}, …]  →  …

The hub stores a class as its number, and its name once for all rows. People know the name.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import first_line, install

HUB_NAME = re.compile(
    r"(?P<name>[a-z0-9][\w.-]*/[a-z0-9][\w.-]*)(:(?P<config>[\w.+-]+))?(@(?P<split>\S+))?",
    re.IGNORECASE | re.ASCII,
)
_BATCH = 256  # rows that are taken at a time

Naming = Callable[[Any], Any]  # a value as it is stored → the same with names for classes


@dataclass(frozen=True, slots=True)
class HubData:
    """Rows still to be fetched, some at a time."""

    name: str
    classes: frozenset[str]
    """The columns whose words are names of classes, and so no text."""
    batches: Iterator[list[dict[str, Any]]]


def open_hub(source: str) -> HubData:
    """The rows of `namespace/name:config@split`, from the local cache when they are there."""
    parts = HUB_NAME.fullmatch(source)
    if parts is None:
        raise UsageError(f"{source} is not a data set name such as roneneldan/TinyStories@train.")
    split = parts["split"] or "train"
    dataset = _loaded(source, parts["name"], parts["config"], split)
    namings = {
        column: naming
        for column, feature in dataset.features.items()
        if (naming := _naming(feature)) is not None
    }
    # As Arrow, pictures and sounds beside the text are not decoded.
    batches = dataset.with_format("arrow").iter(batch_size=_BATCH)
    named = (_named(batch.to_pylist(), namings) for batch in batches)
    return HubData(f"{parts['name']}@{split}", frozenset(namings), named)


def _loaded(source: str, name: str, config: str | None, split: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise GlassformerError(f"{source} needs datasets. Run {install('datasets')}.") from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells of each new try
    try:
        # Release 4 and later run no code that comes with a data set.
        return datasets.load_dataset(name, config, split=split)
    except ConnectionError:
        raise GlassformerError(
            f"{source} is not on this machine, and the Hugging Face hub cannot be reached. "
            "Go online (is HF_HUB_OFFLINE set?), or give a file."
        ) from None
    except FileNotFoundError as error:
        raise GlassformerError(
            f"{source} is neither a file here nor a data set that you may read on the Hugging Face "
            f"hub: {first_line(error)} Check the name; HF_TOKEN opens private ones."
        ) from None
    except Exception as error:  # a network, a disk and a dozen formats stand behind that call
        raise GlassformerError(f"{source} cannot be loaded: {first_line(error)}") from error


def _naming(feature: Any) -> Naming | None:
    """How to name what a column holds: classes, or lists of them. None: it holds no classes."""
    names = getattr(feature, "names", None)
    if isinstance(names, list):
        # Rows without a label, as of many a test split, have the class -1.
        return lambda value: names[value] if value is not None and value >= 0 else None
    inner = _naming(feature.feature) if hasattr(feature, "feature") else None
    if inner is None:
        return None
    return lambda values: None if values is None else [inner(value) for value in values]


def _named(rows: list[dict[str, Any]], namings: dict[str, Naming]) -> list[dict[str, Any]]:
    for row in rows:
        for column, naming in namings.items():
            row[column] = naming(row[column])
    return rows
