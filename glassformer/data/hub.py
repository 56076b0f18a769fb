"""Datasets of the Hugging Face hub: `namespace/name:config@split`.

    films/reviews@test  →  [{"text": "Fine film.", "label": "pos"}, …]  →  …

The hub stores classes as numbers. Rows get the names of the classes instead.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from glassformer.errors import GlassformerError, UsageError
from glassformer.wording import first_line, install

HUB_NAME = re.compile(
    r"(?P<name>[a-z0-9][\w.-]*/[a-z0-9][\w.-]*)(:(?P<config>[\w.+-]+))?(@(?P<split>\S+))?",
    re.IGNORECASE | re.ASCII,
)
_BATCH = 256  # rows fetched at a time

Naming = Callable[[Any], Any]  # stored value → the same with class names


def open_hub(source: str) -> tuple[str, frozenset[str], Iterator[list[dict[str, Any]]]]:
    """The name of `namespace/name:config@split`, its columns that contain class names, not text,
    and its rows in batches, from the local cache if they are there."""
    parts = HUB_NAME.fullmatch(source)
    if parts is None:
        raise UsageError(f"{source} is not a dataset name such as roneneldan/TinyStories@train.")
    split = parts["split"] or "train"
    dataset = _loaded(source, parts["name"], parts["config"], split)
    namings = {
        column: naming
        for column, feature in dataset.features.items()
        if (naming := _naming(feature)) is not None
    }
    # In Arrow format, images and audio next to the text are not decoded.
    batches = dataset.with_format("arrow").iter(batch_size=_BATCH)
    named = (
        [row | {column: naming(row[column]) for column, naming in namings.items()} for row in rows]
        for rows in (batch.to_pylist() for batch in batches)
    )
    return f"{parts['name']}@{split}", frozenset(namings), named


def _loaded(source: str, name: str, config: str | None, split: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise GlassformerError(
            f"{source} is not a local file or folder. To load it from the Hugging Face hub, run "
            f"{install('datasets')}."
        ) from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs every retry
    try:
        # Release 4 and later run no code that comes with a dataset.
        return datasets.load_dataset(name, config, split=split)
    except ConnectionError:
        raise GlassformerError(
            f"{source} is not on this machine, and the Hugging Face hub cannot be reached. "
            "Check the connection and HF_HUB_OFFLINE, or pass a file."
        ) from None
    except FileNotFoundError as error:
        raise GlassformerError(
            f"{source} is neither a local file nor an accessible dataset on the Hugging Face hub: "
            f"{first_line(error)} Check the name; private datasets require HF_TOKEN."
        ) from None
    except Exception as error:  # the call depends on a network, a disk and many formats
        raise GlassformerError(f"{source} cannot be loaded: {first_line(error)}") from error


def _naming(feature: Any) -> Naming | None:
    """How to name the classes, or lists of classes, in a column; None if it has none."""
    names = getattr(feature, "names", None)
    if isinstance(names, list):
        # Rows without a label, as in many test splits, have the class -1.
        return lambda value: names[value] if value is not None and value >= 0 else None
    inner = _naming(feature.feature) if hasattr(feature, "feature") else None
    if inner is None:
        return None
    return lambda values: None if values is None else [inner(value) for value in values]
